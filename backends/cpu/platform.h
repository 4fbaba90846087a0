// What the build and the machine are: sanitizers, the pause instruction, a short spin.
#pragma once

#include <cstdint>

#if defined(__has_feature)
#define KDART_CPU_HAS_FEATURE(x) __has_feature(x)
#else
#define KDART_CPU_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || KDART_CPU_HAS_FEATURE(address_sanitizer)
#define KDART_CPU_ASAN 1
#else
#define KDART_CPU_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || KDART_CPU_HAS_FEATURE(thread_sanitizer)
#define KDART_CPU_TSAN 1
#else
#define KDART_CPU_TSAN 0
#endif

namespace kdart::cpu {

inline constexpr bool address_sanitizer = KDART_CPU_ASAN == 1;
inline constexpr bool thread_sanitizer = KDART_CPU_TSAN == 1;

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits up to some ten microseconds for `done`: what a hand-off between running threads takes, and less than the system
// call that sleeping would cost. Returns done().
template <class Predicate>
bool spin_until(Predicate&& done) noexcept {
  constexpr int rounds = thread_sanitizer ? 20 : 600;
  for (int i = 0; i < rounds; ++i) {
    if (done()) return true;
    pause_cpu();
  }
  return done();
}

}  // namespace kdart::cpu
