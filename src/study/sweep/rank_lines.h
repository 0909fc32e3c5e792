/* Lines of the results that ranks give to rank 0, which alone writes the file. */
#ifndef GRAIL_STUDY_SWEEP_RANK_LINES_H
#define GRAIL_STUDY_SWEEP_RANK_LINES_H

#include "base/buffer.h"
#include "comm/comm.h"

/** Called by all ranks, each with a text, which may be empty. lines[ranks] are empty buffers of the
 * caller, which it frees; on rank 0 they become those of all ranks. */
grail_status rank_lines_gather(const grail_comm *comm, const buffer *own,
                               buffer *lines) GRAIL_MUST_CHECK;

#endif
