/* Any bytes as calibration text or token ids. The first byte chooses the kind, the rest is the
 * file. An accepted file gives pieces of UTF-8, or ids that are valid tokens. */
#include "fuzz.h"

#include "base/utf8.h"
#include "format/text/corpus.h"

static void check_piece(const corpus *c, const corpus_piece *piece)
{
    if (corpus_ids(c) < 0) {
        fuzz_require(piece->text != NULL && piece->ids == NULL && piece->count == 0);
        fuzz_require(utf8_valid_prefix(piece->text, piece->size) == piece->size);
    }
    for (int64_t i = 0; i < piece->count; i++) {
        fuzz_require(piece->ids[i] >= 0);
    }
}

/* Every accepted file ends with a document, and has as many ids as it says. */
static void check_pieces(corpus *c)
{
    bool found = true;
    bool ended = false;
    int64_t count = 0;
    while (found) {
        corpus_piece piece = {0};
        if (corpus_next(c, &piece, &found) != GRAIL_OK) {
            return;
        }
        if (found) {
            check_piece(c, &piece);
            count += piece.count;
            ended = piece.ends_document;
        }
    }
    char hash[65];
    if (corpus_finish(c, hash) == GRAIL_OK) {
        fuzz_require(ended && count == (corpus_ids(c) < 0 ? 0 : corpus_ids(c)));
        fuzz_require(corpus_ids(c) < 0 || corpus_row(c) == 0 || count % corpus_row(c) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"input.txt", "input.jsonl", "input.npy"};
    corpus *c = NULL;
    if (size == 0 ||
        corpus_open_bytes(names[data[0] % 3], NULL, data + 1, size - 1, &c) != GRAIL_OK) {
        return 0;
    }
    check_pieces(c);
    corpus_close(c);
    return 0;
}
