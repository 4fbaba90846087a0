// Independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace kdart::reference {

// Calls work(i) for every i < count, in no order, on as many threads as `operations` (of all pieces together, in
// multiplications or so) pay for, and waits. What a piece throws is thrown here, the first of several; the pieces that
// have not begun by then are left out.
void parallel_for(std::size_t count, double operations, const std::function<void(std::size_t)>& work);

}  // namespace kdart::reference
