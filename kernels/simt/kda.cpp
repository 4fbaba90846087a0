// The CPU image: every kernel, and the table that the CPU backend looks up.
#include "kernels/simt/kernels.h"

using namespace kdart_simt;

#include "kernels/kda_cpu_table.h"
