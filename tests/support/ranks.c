#include "support/ranks.h"

#include "support/support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ends[i][j]: the socket on which rank i speaks with rank j */
typedef int mesh[RANKS_MOST][RANKS_MOST];

typedef struct sockets {
    const int *of; /* [size] */
    int rank, size;
} sockets;

static int send_bytes(void *context, int to, const void *bytes, size_t size)
{
    const sockets *s = context;
    for (const char *at = bytes; size > 0;) {
        const ssize_t sent = send(s->of[to], at, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return 1;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int receive_bytes(void *context, int from, void *bytes, size_t size)
{
    const sockets *s = context;
    for (char *at = bytes; size > 0;) {
        const ssize_t got = read(s->of[from], at, size);
        if (got <= 0) {
            return 1;
        }
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static int broadcast_bytes(void *context, int root, void *bytes, size_t size)
{
    const sockets *s = context;
    int failed = 0;
    if (s->rank != root) {
        return receive_bytes(context, root, bytes, size);
    }
    for (int rank = 0; rank < s->size; rank++) {
        failed |= rank != root ? send_bytes(context, rank, bytes, size) : 0;
    }
    return failed;
}

static void connect_all(int size, mesh ends)
{
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < i; j++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
                abort();
            }
            ends[i][j] = pair[0];
            ends[j][i] = pair[1];
        }
    }
}

/* Closes the ends of all ranks but `own` (-1: of all), so that a rank sees when another has ended.
 */
static void close_others(int size, int own, mesh ends)
{
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) {
            if (i != own && i != j) {
                close(ends[i][j]);
            }
        }
    }
}

static int run_rank(int rank, int size, mesh ends, int (*body)(const grail_comm *, void *),
                    void *user)
{
    close_others(size, rank, ends);
    sockets s = {.of = ends[rank], .rank = rank, .size = size};
    const grail_comm comm = {.rank = rank,
                             .size = size,
                             .context = &s,
                             .send = send_bytes,
                             .receive = receive_bytes,
                             .broadcast = broadcast_bytes};
    return body(&comm, user);
}

void ranks_run(int size, int (*body)(const grail_comm *comm, void *user), void *user, int *ended)
{
    mesh ends = {{0}};
    pid_t children[RANKS_MOST] = {0};
    connect_all(size, ends);
    for (int rank = 0; rank < size; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            _exit(run_rank(rank, size, ends, body, user));
        }
    }
    close_others(size, -1, ends);
    for (int rank = 0; rank < size; rank++) {
        int result = 0;
        if (waitpid(children[rank], &result, 0) != children[rank]) {
            abort();
        }
        if (ended != NULL) {
            ended[rank] = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
        }
    }
}

void ranks_end_with(int size, int (*body)(const grail_comm *comm, void *user), void *user,
                    int expected)
{
    int ended[RANKS_MOST];
    ranks_run(size, body, user, ended);
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(ended[rank], expected);
    }
}

void *ranks_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}
