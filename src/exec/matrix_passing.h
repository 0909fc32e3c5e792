/* Matrices that pass between ranks. Both sides have some of the same shapes and types, in one
 * order; on the way their values lie in host memory, as many rows at a time as a message takes. All
 * ranks make these calls in the same order. */
#ifndef GRAIL_EXEC_MATRIX_PASSING_H
#define GRAIL_EXEC_MATRIX_PASSING_H

#include "backend/matrix.h"
#include "comm/comm.h"

/** Room for the messages of matrices whose rows have so many bytes, and are no longer. */
size_t matrices_room(size_t row_bytes);

/* Both after comm_settle; room[matrices_room] is overwritten. */
grail_status matrices_send(const grail_comm *c, int to, const matrix *m, int count,
                           void *room) GRAIL_MUST_CHECK;
grail_status matrices_receive(const grail_comm *c, int from, const matrix *m, int count,
                              void *room) GRAIL_MUST_CHECK;
/** Settles, and gives the values of rank `root` to all; does nothing where there is one. */
grail_status matrices_share(const grail_comm *c, int root, const matrix *m,
                            int count) GRAIL_MUST_CHECK;

#endif
