/* Asks the program, now and then, whether a long call is to stop. */
#ifndef GRAIL_BASE_STOP_H
#define GRAIL_BASE_STOP_H

#include "base/status.h"

/** GRAIL_ERROR_CANCELLED where grail_set_stop's observer says so. */
grail_status stop_check(void) GRAIL_MUST_CHECK;

#endif
