add_library(grail_warnings INTERFACE)
target_compile_options(grail_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wdouble-promotion -Wundef -Wcast-qual -Wvla
    -ffp-contract=off
    $<$<BOOL:${GRAIL_WERROR}>:-Werror>
    # blis.h and jansson.h are system headers; C17 pedantry about _Thread_local is not wanted
)
target_compile_definitions(grail_warnings INTERFACE _GNU_SOURCE)
