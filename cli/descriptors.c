#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Standard output is opened for reading, so that writing to it fails: whoever closed it must not be
 * told that everything was written. */
static int mode_of(int descriptor)
{
    return descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY;
}

bool descriptors_open_missing(void)
{
    for (int d = STDIN_FILENO; d <= STDERR_FILENO; d++) {
        /* open takes the lowest free number, which is d */
        if (fcntl(d, F_GETFD) == -1 && errno == EBADF && open("/dev/null", mode_of(d)) != d) {
            return false;
        }
    }
    return true;
}
