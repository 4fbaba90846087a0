// The image for AMD GPUs.
#include "kernels/simt/kernels.h"
