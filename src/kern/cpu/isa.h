/* Moved: the optimizer's loops are built per instruction set too. */
#include "base/isa_level.h"
