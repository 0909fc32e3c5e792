/* Any bytes as the network of an ONNX file: nodes that rows read, and regions of those that none
 * does, without ONNX Runtime. In an accepted one regions name their first node and why, and its
 * sites can be listed. It is written below $TMPDIR or /tmp. */
#include "fuzz.h"

#include "arch/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check_model(const grail_model *m)
{
    grail_model_facts facts = {0};
    grail_site_list *sites = NULL;
    grail_region_facts r;
    for (int i = 0; (r = grail_model_region_at(m, i)).node != NULL; i++) {
        fuzz_require(r.reason != NULL && r.nodes > 0 && r.channels > 0);
    }
    if (grail_model_describe(m, &facts) == GRAIL_OK) {
        fuzz_require(facts.reads_images != 0);
    }
    fuzz_require(grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites) == GRAIL_OK);
    grail_site_list_free(sites);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    grail_model *m = NULL;
    (void)unsetenv("GRAIL_ONNXRUNTIME");
    snprintf(path, sizeof path, "%s/grail-fuzz-%d.onnx", base == NULL ? "/tmp" : base,
             (int)getpid());
    FILE *out = fopen(path, "wb");
    fuzz_require(out != NULL && fwrite(data, 1, size, out) == size);
    fuzz_require(fclose(out) == 0);
    if (grail_model_open(path, &m) == GRAIL_OK) {
        check_model(m);
    }
    grail_model_close(m);
    (void)remove(path);
    return 0;
}
