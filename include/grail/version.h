#ifndef GRAIL_VERSION_H
#define GRAIL_VERSION_H

#include <grail/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the interface: of the functions of these headers, and the layout of their structs. It
 * grows with every change after which a program that was compiled before may no longer work: not
 * with functions that are added, nor with fields that take the room of their struct (GRAIL_ROOM). A
 * program, or a binding of another language, that was compiled against one version compares it with
 * what the library that it has loaded says.
 */
#define GRAIL_INTERFACE_VERSION 1

/** GRAIL_INTERFACE_VERSION of the library. */
GRAIL_API int grail_interface_version(void);

#ifdef __cplusplus
}
#endif
#endif
