// Memory: what the HIP runtime takes in its own form.
#include "backends/hip/traits.h"

namespace kdart::hip {

hipMemPoolProps HipApi::pool_properties(const Context& context) noexcept {
  hipMemPoolProps props{};
  props.allocType = hipMemAllocationTypePinned;
  props.location = {hipMemLocationTypeDevice, context.device()};
  return props;
}

}  // namespace kdart::hip
