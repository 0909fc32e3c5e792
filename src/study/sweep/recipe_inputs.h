/* What a recipe names, for ranks that do not have it. */
#ifndef GRAIL_STUDY_SWEEP_RECIPE_INPUTS_H
#define GRAIL_STUDY_SWEEP_RECIPE_INPUTS_H

#include "study/recipe/recipe.h"

#include <grail/inputs.h>

/** Gives all ranks the checkpoints that are wanted[checkpoints] and the data of the recipe: a rank
 * that lacks some opens copies, until *out is closed, and all name checkpoints by rank 0's paths.
 */
grail_status recipe_inputs_share(const grail_comm *comm, const bool *wanted, sweep_recipe *recipe,
                                 grail_shared_inputs **out) GRAIL_MUST_CHECK;

#endif
