// A guard that is not kept ends at once.
#include "autograd/tape.h"

void ignore() { braid::NoGrad(); }
