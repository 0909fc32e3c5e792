/* The phases of a time that is given: what they take here, and how it is divided among them. */
#ifndef GRAIL_PLANNING_PHASES_H
#define GRAIL_PLANNING_PHASES_H

#include "planning/choosing.h"

/** Measures the rates of the run, divides what the time leaves, and sets what it suffices for. */
grail_status phases_divide(choosing *c) GRAIL_MUST_CHECK;

#endif
