#ifndef GRAIL_GRAM_H
#define GRAIL_GRAM_H

#include <grail/compress.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Statistics of a dense network as files: sums over what its matrices read, which runs take instead
 * of a pass of the network (cut.statistics), and which can be added, so that parts of a calibration
 * set are counted by different machines. A file is a GGUF file that llama.cpp's tools read as an
 * importance matrix.
 */
typedef struct grail_gram_options {
    const char *path; /* file to write; must not exist */
    int full;         /* 1: also the whole Gram matrices of what the sites' units are read by */
    int resume;       /* 1: continue an interrupted count; not of grail_gram_add */
    GRAIL_ROOM(4);
} grail_gram_options;

typedef struct grail_gram_facts {
    int64_t matrices; /* whose input is counted */
    int64_t grams;    /* whole Gram matrices */
    int64_t samples;
    int64_t
        context;   /* tokens of a window, or the most of a document, or pixels of an image's side */
    int64_t bytes; /* of the file */
    GRAIL_ROOM(4);
} grail_gram_facts;

/** Runs the dense network on the samples of `run`, of which what is read, how convolutions are
 * fitted and with which means it runs count, and writes its statistics. The file appears only when
 * it is complete; one that already exists is GRAIL_ERROR_EXISTS. What an interrupted call has
 * counted stays beside it, in PATH.partial, and `resume` goes on with it to the same bytes. */
GRAIL_API grail_status grail_gram_write(const grail_compress_options *run,
                                        const grail_gram_options *options,
                                        grail_gram_facts *facts) GRAIL_MUST_CHECK;

/** Adds statistics: what a pass over the samples of all files would have given, to rounding. Files
 * of different models, contexts or precisions are GRAIL_ERROR_ARGUMENT, and so are files that
 * llama.cpp's tools wrote, which do not say what they are of. options->full has no effect. */
GRAIL_API grail_status grail_gram_add(int count, const char *const paths[],
                                      const grail_gram_options *options,
                                      grail_gram_facts *facts) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
