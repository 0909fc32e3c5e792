/* The commands: one file each, listed in main.c. */
#ifndef GRAIL_CLI_COMMANDS_H
#define GRAIL_CLI_COMMANDS_H

#include "options.h"

extern const command command_inspect, command_compress, command_eval, command_verify,
    command_doctor, command_logits, command_completion;

extern const option *const inspect_options,
    *const compress_options, *const eval_options, *const verify_options,
                                                      *const doctor_options,
                                                          *const logits_options,
                                                              *const completion_options;

#endif
