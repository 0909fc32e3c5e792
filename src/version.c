#include <grail/machine.h>

const char *grail_version(void)
{
    return GRAIL_VERSION;
}
