#include "core/runtime/abandon.h"

#include <atomic>
#include <new>

namespace kdart::detail {
namespace {

struct Abandoned {
  void* object;
  Abandoned* next;
};
std::atomic<Abandoned*> abandoned{nullptr};

}  // namespace

void abandon(void* object) noexcept {
  auto* entry = new (std::nothrow) Abandoned{object, abandoned.load()};
  while (entry != nullptr && !abandoned.compare_exchange_weak(entry->next, entry)) {
  }
}

}  // namespace kdart::detail
