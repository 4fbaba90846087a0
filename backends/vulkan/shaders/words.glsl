// Device memory as 32-bit words by address, and which bytes of a word belong to a run of bytes. Words alone: 8-bit access
// is a feature that not every device has.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word {
  uint value;
};

Word word_at(uint64_t address) {
  return Word(address & ~3ul);
}

// The bits of the word at `address` (a multiple of 4) whose bytes lie in [begin, end).
uint mask_of(uint64_t address, uint64_t begin, uint64_t end) {
  uint mask = 0xFFFFFFFFu;
  if (begin > address) mask &= 0xFFFFFFFFu << (8u * uint(begin - address));
  if (end < address + 4ul) mask &= 0xFFFFFFFFu >> (8u * uint(address + 4ul - end));
  return mask;
}

// Neighbouring bytes of an edge word may be written by somebody else at the same time.
void store_masked(uint64_t address, uint value, uint mask) {
  Word word = word_at(address);
  if (mask == 0xFFFFFFFFu) {
    word.value = value;
  } else {
    atomicAnd(word.value, ~mask);
    atomicOr(word.value, value & mask);
  }
}
