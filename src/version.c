#include <grail/version.h>

#include <grail/machine.h>

const char *grail_version(void)
{
    return GRAIL_VERSION;
}

int grail_interface_version(void)
{
    return GRAIL_INTERFACE_VERSION;
}
