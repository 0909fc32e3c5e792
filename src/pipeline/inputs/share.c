/* Sends the inputs of a run to the ranks that lack them: rank 0 lists its files, each rank says
 * which inputs it does not see, makes room for copies, and then all bytes that any rank lacks pass
 * in pieces. */
#include "base/checksum.h"
#include "comm/comm.h"
#include "pipeline/inputs/copies.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 23, MOST_INPUTS = 1 << 16 };

typedef struct sharing {
    const grail_comm *comm;
    const grail_input *inputs; /* [count] */
    int count;
    file_list *lists;            /* [count] of rank 0's files; owned */
    bool *own;                   /* [count]: this rank lacks it; owned */
    bool *sent;                  /* [count]: some rank does; owned */
    grail_shared_inputs *copies; /* owned */
    unsigned char *piece;        /* [PIECE] and its checksum; owned */
    int64_t total, done;         /* bytes of files that are sent */
    /* where both ends are: file `file` of input `input` from byte `at` on */
    int input;
    size_t file;
    int64_t at;
    int descriptor; /* -1: not open */
    char *path;     /* owned */
} sharing;

static void sharing_fini(sharing *s)
{
    for (int i = 0; s->lists != NULL && i < s->count; i++) {
        file_list_fini(&s->lists[i]);
    }
    if (s->descriptor >= 0) {
        close(s->descriptor);
    }
    memory_free(s->lists);
    memory_free(s->own);
    memory_free(s->sent);
    memory_free(s->piece);
    memory_free(s->path);
    grail_shared_inputs_close(s->copies);
}

static grail_status sharing_init(sharing *s)
{
    if (s->count < 0 || s->count > MOST_INPUTS) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%d inputs, expected 0 to %d", s->count,
                         MOST_INPUTS);
    }
    for (int i = 0; i < s->count; i++) {
        if (s->inputs == NULL || s->inputs[i].path == NULL) {
            return error_set(GRAIL_ERROR_ARGUMENT, "input %d of %d has no path of the caller's", i,
                             s->count);
        }
    }
    CHECK(memory_new(&s->lists, (size_t)s->count, sizeof s->lists[0]));
    CHECK(memory_new(&s->own, (size_t)s->count, sizeof s->own[0]));
    CHECK(memory_new(&s->sent, (size_t)s->count, sizeof s->sent[0]));
    return memory_new(&s->piece, PIECE + sizeof(uint32_t), 1);
}

/* -- what rank 0 has --------------------------------------------------------------------------- */

/* How an input begins in what rank 0 tells. */
enum { INPUT_NOT_GIVEN, INPUT_MISSING, INPUT_LISTED };

static grail_status tell_input(sharing *s, int i, buffer *out)
{
    const char *path = *s->inputs[i].path;
    const bool is_there = path != NULL && file_exists(path);
    const int32_t state = path == NULL ? INPUT_NOT_GIVEN : is_there ? INPUT_LISTED : INPUT_MISSING;
    CHECK(buffer_append(out, &state, sizeof state));
    if (!is_there) {
        return GRAIL_OK;
    }
    CHECK(s->inputs[i].is_model != 0 ? file_list_of_model(path, &s->lists[i])
                                     : file_list_of_data(path, &s->lists[i]));
    return file_list_write(&s->lists[i], out);
}

static grail_status tell_all(sharing *s, buffer *out)
{
    const int32_t count = s->count;
    CHECK(buffer_append(out, &count, sizeof count));
    for (int i = 0; i < s->count; i++) {
        CHECK(tell_input(s, i, out));
    }
    return GRAIL_OK;
}

static grail_status read_number(const buffer *in, size_t *at, int32_t *out)
{
    if (in->size - *at < sizeof *out) {
        return error_set(GRAIL_ERROR_FORMAT, "what rank 0 tells of its files ends too early");
    }
    memcpy(out, in->bytes + *at, sizeof *out);
    *at += sizeof *out;
    return GRAIL_OK;
}

static grail_status refuse_other_inputs(void)
{
    return error_set(GRAIL_ERROR_ARGUMENT,
                     "the run has other inputs here than on rank 0; give all ranks the same "
                     "command");
}

static grail_status hear_input(sharing *s, int i, const buffer *in, size_t *at)
{
    int32_t state = 0;
    bool is_seen = false;
    const char *path = *s->inputs[i].path;
    CHECK(read_number(in, at, &state));
    if ((state == INPUT_NOT_GIVEN) != (path == NULL)) {
        return refuse_other_inputs();
    }
    if (state == INPUT_LISTED) {
        CHECK(file_list_read(in, at, &s->lists[i]));
        CHECK(file_list_is_seen(&s->lists[i], path, &is_seen));
        s->own[i] = !is_seen;
    }
    return GRAIL_OK;
}

static grail_status hear_all(sharing *s, const buffer *in)
{
    int32_t count = 0;
    size_t at = 0;
    CHECK(read_number(in, &at, &count));
    if (count != s->count) {
        return refuse_other_inputs();
    }
    for (int i = 0; i < s->count; i++) {
        CHECK(hear_input(s, i, in, &at));
    }
    return GRAIL_OK;
}

/* All ranks know the files of rank 0, and which of the inputs they lack. */
static grail_status exchange_lists(sharing *s)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    const bool tells = comm_rank(s->comm) == 0;
    buffer_init(&text, SIZE_MAX / 4);
    TRY(comm_settle(s->comm, tells ? tell_all(s, &text) : GRAIL_OK));
    TRY(comm_broadcast_buffer(s->comm, 0, &text));
    TRY(comm_settle(s->comm, tells ? GRAIL_OK : hear_all(s, &text)));
out:
    buffer_fini(&text);
    return status;
}

/* An input is sent where a rank lacks it. */
static grail_status gather_lacks(sharing *s)
{
    const size_t size = (size_t)s->count * sizeof s->own[0];
    if (comm_rank(s->comm) > 0) {
        CHECK(comm_send(s->comm, 0, s->own, size));
    }
    for (int rank = 1; comm_rank(s->comm) == 0 && rank < comm_size(s->comm); rank++) {
        CHECK(comm_receive(s->comm, rank, s->own, size));
        for (int i = 0; i < s->count; i++) {
            s->sent[i] = s->sent[i] || s->own[i];
            s->own[i] = false;
        }
    }
    return comm_broadcast_next(s->comm, 0, s->sent, size);
}

/* -- passing bytes ----------------------------------------------------------------------------- */

static const listed_file *current(const sharing *s)
{
    return &s->lists[s->input].files[s->file];
}

static grail_status open_current(sharing *s)
{
    const bool reads = comm_rank(s->comm) == 0;
    const char *root = reads ? s->lists[s->input].root : s->copies->roots[s->input];
    CHECK(path_join(&s->path, root, current(s)->name));
    s->descriptor = file_open(AT_FDCWD, s->path, reads ? O_RDONLY : O_WRONLY);
    return s->descriptor >= 0 ? GRAIL_OK : error_from_errno("cannot open", s->path);
}

static grail_status check_unchanged(const sharing *s)
{
    file_identity now = {0};
    CHECK(file_identify_open(s->descriptor, s->path, &now));
    return memcmp(&now, &current(s)->identity, sizeof now) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_IO,
                           "'%s' changed while it was sent to other ranks; leave the inputs as "
                           "they are during a run, and run again",
                           s->path);
}

/* The file has passed; the next one begins. */
static grail_status finish_current(sharing *s)
{
    grail_status status = GRAIL_OK;
    if (s->descriptor >= 0) {
        status = comm_rank(s->comm) == 0
                     ? check_unchanged(s)
                     : copy_set_times(s->descriptor, s->path, &current(s)->identity);
        close(s->descriptor);
    }
    s->descriptor = -1;
    memory_free(s->path);
    s->path = NULL;
    s->file++;
    s->at = 0;
    return status;
}

/* Rank 0 reads `bytes`, the others write them, but for those that see the input. */
static grail_status pass_current(sharing *s, unsigned char *bytes, size_t size)
{
    if (comm_rank(s->comm) > 0 && !s->own[s->input]) {
        return GRAIL_OK;
    }
    CHECK(s->descriptor < 0 ? open_current(s) : GRAIL_OK);
    return comm_rank(s->comm) == 0
               ? file_read_at(s->descriptor, s->path, bytes, size, (uint64_t)s->at)
               : file_write_at(s->descriptor, s->path, bytes, size, (uint64_t)s->at);
}

/* Passes `size` bytes, which may be of many files; empty files among them too. */
static grail_status pass_piece(sharing *s, size_t size)
{
    for (size_t done = 0; s->input < s->count;) {
        if (!s->sent[s->input] || s->file == s->lists[s->input].count) {
            s->input++;
            s->file = 0;
            continue;
        }
        const int64_t left = current(s)->identity.size - s->at;
        const size_t now = left < (int64_t)(size - done) ? (size_t)left : size - done;
        CHECK(pass_current(s, s->piece + done, now));
        done += now;
        s->at += (int64_t)now;
        if ((int64_t)now < left) {
            return GRAIL_OK;
        }
        CHECK(finish_current(s));
    }
    return GRAIL_OK;
}

static grail_status seal_piece(sharing *s, size_t size, grail_share_observer observer, void *user)
{
    CHECK(pass_piece(s, size));
    const uint32_t sum = checksum_crc32(s->piece, size);
    memcpy(s->piece + size, &sum, sizeof sum);
    return observer == NULL || observer(user, s->done, s->total) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld bytes were sent",
                           (long long)s->done, (long long)s->total);
}

static grail_status keep_piece(sharing *s, size_t size)
{
    uint32_t sum = 0;
    memcpy(&sum, s->piece + size, sizeof sum);
    if (sum != checksum_crc32(s->piece, size)) {
        return error_set(GRAIL_ERROR_IO,
                         "inputs did not arrive as rank 0 sent them; run again, and "
                         "look at the network and the memory of this machine");
    }
    return pass_piece(s, size);
}

static void count_bytes(sharing *s)
{
    for (int i = 0; i < s->count; i++) {
        for (size_t f = 0; s->sent[i] && f < s->lists[i].count; f++) {
            s->total += s->lists[i].files[f].identity.size;
        }
    }
}

/* What a rank fails with stands until all settle before the next piece. */
static grail_status send_files(sharing *s, grail_share_observer observer, void *user)
{
    const bool reads = comm_rank(s->comm) == 0;
    grail_status status = GRAIL_OK;
    count_bytes(s);
    do {
        const int64_t left = s->total - s->done;
        const size_t size = left < PIECE ? (size_t)left : PIECE;
        s->done += (int64_t)size;
        if (reads) {
            status = seal_piece(s, size, observer, user);
        }
        CHECK(comm_settle(s->comm, status));
        CHECK(comm_broadcast_next(s->comm, 0, s->piece, size + sizeof(uint32_t)));
        if (!reads) {
            status = keep_piece(s, size);
        }
    } while (s->done < s->total);
    return comm_settle(s->comm, status);
}

/* -- all --------------------------------------------------------------------------------------- */

static bool any(const bool *flags, int count)
{
    bool found = false;
    for (int i = 0; i < count; i++) {
        found = found || flags[i];
    }
    return found;
}

static grail_status share(sharing *s, grail_share_observer observer, void *user)
{
    CHECK(comm_settle(s->comm, sharing_init(s)));
    CHECK(exchange_lists(s));
    CHECK(gather_lacks(s));
    if (!any(s->sent, s->count)) {
        return GRAIL_OK;
    }
    CHECK(comm_settle(s->comm, any(s->own, s->count)
                                   ? copies_make(s->lists, s->own, s->count, &s->copies)
                                   : GRAIL_OK));
    return send_files(s, observer, user);
}

grail_status grail_inputs_share(const grail_comm *comm, const grail_input *inputs, int count,
                                grail_share_observer observer, void *user,
                                grail_shared_inputs **out)
{
    sharing s = {.comm = comm, .inputs = inputs, .count = count, .descriptor = -1};
    *out = NULL;
    CHECK(comm_check(comm));
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    const grail_status status = comm_end(comm, share(&s, observer, user));
    if (status == GRAIL_OK) {
        for (int i = 0; i < count; i++) {
            *inputs[i].path = s.own[i] ? s.copies->paths[i] : *inputs[i].path;
        }
        *out = s.copies;
        s.copies = NULL;
    }
    sharing_fini(&s);
    return status;
}
