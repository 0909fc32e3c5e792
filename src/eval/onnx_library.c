#include "eval/onnx_library.h"

#include "base/child_output.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* find_spec of a package imports nothing, and -I leaves the working directory, PYTHONPATH and the
 * user's own packages out of the search. */
static const char question[] =
    "import glob, importlib.util, os, sys\n"
    "package = importlib.util.find_spec('onnxruntime')\n"
    "for place in (package.submodule_search_locations or ()) if package else ():\n"
    "    pattern = os.path.join(glob.escape(place), 'capi', 'libonnxruntime.so.*')\n"
    "    for library in sorted(glob.glob(pattern))[:1]:\n"
    "        sys.stdout.buffer.write(os.fsencode(library))\n"
    "        sys.exit()\n";

enum { MOST_SECONDS = 5 };

static bool is_file_of_its_own(const buffer *path)
{
    struct stat file;
    return memchr(path->bytes, 0, path->size) == NULL && path->bytes[0] == '/' &&
           stat((const char *)path->bytes, &file) == 0 && S_ISREG(file.st_mode);
}

/* The path that python3 names, in `path`. */
static grail_status ask_python(buffer *path)
{
    grail_status status = GRAIL_OK;
    char *python = NULL;
    TRY(child_find("python3", &python));
    if (python == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "no python3 is on PATH that may have it");
    }
    TRY(child_output((const char *const[]){python, "-I", "-c", question, NULL}, NULL, MOST_SECONDS,
                     path));
    if (path->size == 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "%s does not have it", python);
    }
    if (!is_file_of_its_own(path)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "%s names '%s', which is not the path of a file", python,
             (const char *)path->bytes);
    }
out:
    memory_free(python);
    return status;
}

static grail_status load_from_python(void **out)
{
    grail_status status = GRAIL_OK;
    buffer path = {0};
    buffer_init(&path, PATH_MAX);
    TRY(ask_python(&path));
    *out = dlopen((const char *)path.bytes, RTLD_NOW | RTLD_LOCAL);
    if (*out == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "the library of python3 cannot be loaded: %s", dlerror());
    }
out:
    buffer_fini(&path);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        error_prefix("ONNX Runtime was not found");
        error_append("; install its library (libonnxruntime of Debian 13 and later) or its package "
                     "for python3, or let GRAIL_ONNXRUNTIME name a libonnxruntime.so");
    }
    return status;
}

static void *search_system(void)
{
    static const char *const names[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

grail_status onnx_library_load(void **out)
{
    const char *named = getenv("GRAIL_ONNXRUNTIME");
    const bool is_named = named != NULL && named[0] != 0;
    *out = is_named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : search_system();
    if (*out != NULL) {
        return GRAIL_OK;
    }
    return is_named ? error_set(GRAIL_ERROR_UNSUPPORTED,
                                "GRAIL_ONNXRUNTIME names '%s', which cannot be loaded: %s", named,
                                dlerror())
                    : load_from_python(out);
}
