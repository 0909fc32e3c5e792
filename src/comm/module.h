/* What a module with a transport exports: grail-mpi.so, which alone is linked to MPI. */
#ifndef GRAIL_COMM_MODULE_H
#define GRAIL_COMM_MODULE_H

#include <grail/comm.h>

enum { COMM_MODULE_VERSION = 1 };

typedef struct comm_module {
    int version; /* COMM_MODULE_VERSION */
    /* 0, or anything else with a text in error[size] */
    int (*open)(grail_comm *out, char *error, size_t size);
    void (*close)(void);
    void (*end_all)(int code);
} comm_module;

/** The symbol, a const comm_module. */
#define COMM_MODULE_SYMBOL "grail_comm_module"

#endif
