// A kernel with hidden arguments, shared memory and scratch memory, and a relocation, compiled for several targets.
#define GLOBAL __attribute__((global))

__attribute__((device)) int kdart_number;
__attribute__((device)) int* kdart_pointer = &kdart_number;

extern "C" GLOBAL void kdart_compiled(float* out, unsigned short few, double many, int count) {
  __attribute__((shared)) static float shared[64];
  volatile float scratch[32];
  const unsigned thread = __builtin_amdgcn_workitem_id_x();
  const unsigned at = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + thread;
  shared[thread % 64] = static_cast<float>(many);
  scratch[at % 32] = static_cast<float>(few);
  __builtin_amdgcn_s_barrier();
  if (static_cast<int>(at) < count) out[at] = shared[63 - thread % 64] + scratch[count % 32];
}

extern "C" GLOBAL void kdart_nothing() {}
