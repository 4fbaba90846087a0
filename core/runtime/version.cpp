#include "kdart/version.h"

namespace kdart {

const char* version() noexcept {
  return KDART_VERSION_STRING;
}

}  // namespace kdart
