/* A residual network's checkpoint in a directory of its own, opened as the test wants it. */
#ifndef GRAIL_TESTS_ARCH_NETWORK_FIXTURE_H
#define GRAIL_TESTS_ARCH_NETWORK_FIXTURE_H

#include "lab_network.h"

#include "arch/model.h"
#include "support/owned.h"

typedef struct network_fixture {
    lab_network n; /* written when it is opened */
    char *directory;
} network_fixture;

/** One at a time; network_teardown removes the directory. */
network_fixture *network_setup(const lab_resnet *r);
void network_teardown(network_fixture *f);

void network_write_config(const network_fixture *f, const char *name, const char *text);

/** Writes the checkpoint, zeros, and opens it; the caller closes it. */
grail_model *network_open(const network_fixture *f);
grail_model *network_open_with(const network_fixture *f, const char *const *settings, int count);
/** The same where it may fail. */
grail_status network_try(const network_fixture *f);

/** The node whose weight has that name; the test fails without it. */
const node *network_reader(const graph *g, const char *parameter);

OWNS_POINTER(network_fixture, network_teardown)

#endif
