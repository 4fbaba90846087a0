#include "backends/cpu/threads.h"

#include <pthread.h>
#include <signal.h>

#include <cfenv>
#include <system_error>
#include <utility>

#include "backends/cpu/errors.h"

namespace kdart::cpu {
namespace {

// Blocks every signal that is not raised by the thread itself, for as long as it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Deadline deadline_after(std::optional<std::chrono::nanoseconds> timeout) noexcept {
  // Beyond this the clock's 64 bits could wrap, and nobody waits that long.
  constexpr std::chrono::nanoseconds forever = std::chrono::hours(24 * 365 * 10);
  if (!timeout || *timeout > forever) return {};
  return std::chrono::steady_clock::now() + std::max(*timeout, std::chrono::nanoseconds(0));
}

std::thread start_thread(const char* name, std::function<void()> body) {
  const SignalsBlocked inherited;
  try {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      std::fesetenv(FE_DFL_ENV);
      body();
    });
  } catch (...) {
    throw current_error("starting a thread of the CPU backend");
  }
}

}  // namespace kdart::cpu
