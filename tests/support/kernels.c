/* Tests compute with the kernels that the program takes: set before main, as cli/main.c does. */
#include "backend/cpu/blas.h"

#include <stdlib.h>

__attribute__((constructor)) static void choose_kernels(void)
{
    const char *setting = blas_setting();
    if (setting != NULL) {
        setenv("BLIS_ARCH_TYPE", setting, 1);
    }
}
