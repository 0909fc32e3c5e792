/* What a kernel on the host finds out while it stores its result: that all of it is finite. Who
 * would search it for NaN asks first. It holds for one question of the thread, until its next
 * operation, upload or release of a matrix. */
#ifndef GRAIL_BACKEND_FINITE_H
#define GRAIL_BACKEND_FINITE_H

#include "backend/matrix.h"

void finite_found(matrix result);
void finite_forget(void);
bool finite_take(matrix m);

#endif
