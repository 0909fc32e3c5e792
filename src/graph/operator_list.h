/* The operators: one row for each kind of node NODE_KIND, as OPERATOR(KIND, name, rules). The rules
 * are members of operator_rules (operators.h); their functions are in operators.c. What runs the
 * node is operator_NAME in exec/ops/NAME.c. Whoever includes this list defines OPERATOR. */

/* ids -> rows of weight[V, E] */
OPERATOR(EMBEDDING, embedding, .inputs = 1, .axis = AXIS_ENDS, .width = WIDTH_COLUMNS,
         .gathers = true, .looks_at_inputs = true)

/* y = x W^T + b, weight[out, in] */
OPERATOR(LINEAR, linear, .inputs = 1, .rows = ROWS_ALONE, .axis = AXIS_STARTS, .width = WIDTH_ROWS,
         .check = input_fits_weight, .may_overflow = true, .looks_at_inputs = true)

/* over groups of `group` features; group 0 means the entire width */
OPERATOR(RMS_NORM, rms_norm, .inputs = 1, .rows = ROWS_ALONE, .pins = norms_without_weight,
         .norms_width = has_no_groups, .check = groups_fit, .in_place = IN_PLACE_ANY,
         .keeps_zeros = true, .looks_at_inputs = true)

/* rotary positions on heads of head_dim */
OPERATOR(ROPE, rope, .inputs = 1, .in_place = IN_PLACE_ANY)

/* (q, k, v) -> heads side by side, as wide as those of v; weight[query heads]: their sinks, scores
 * that each softmax sums over too, of a value 0; bias[query heads, positions, positions]: added to
 * scores of each query and key */
OPERATOR(ATTENTION, attention, .inputs = 3, .axis = AXIS_HEADS, .width = WIDTH_HEADS,
         .check = heads_fit, .per_channel = true, .may_overflow = true, .looks_at_inputs = true,
         .looks_at_output = true)

OPERATOR(ACTIVATION, activation, .inputs = 1, .rows = ROWS_ALONE, .in_place = IN_PLACE_ANY,
         .looks_at_inputs = true)

/* cap tanh(x / cap) */
OPERATOR(SOFT_CAP, soft_cap, .inputs = 1, .rows = ROWS_ALONE, .in_place = IN_PLACE_ANY,
         .looks_at_output = true)

/* scale x * weight + offset + bias, per channel; a parameter may be missing */
OPERATOR(AFFINE, affine, .inputs = 1, .rows = ROWS_ALONE, .check = rows_fit,
         .in_place = IN_PLACE_ANY, .per_channel = true, .may_overflow = true,
         .looks_at_inputs = true)

/* x, slope x * weight below 0, per channel; the weight may be missing */
OPERATOR(PRELU, prelu, .inputs = 1, .rows = ROWS_ALONE, .check = rows_fit, .per_channel = true,
         .may_overflow = true, .looks_at_inputs = true)

/* min(max(x, low), high) + offset */
OPERATOR(CLAMP, clamp, .inputs = 1, .rows = ROWS_ALONE, .in_place = IN_PLACE_ANY,
         .looks_at_inputs = true)

OPERATOR(MULTIPLY, multiply, .inputs = 2, .rows = ROWS_ALONE, .axis = AXIS_JOINS,
         .check = inputs_agree, .extent = same_positions, .in_place = IN_PLACE_ANY,
         .looks_at_inputs = true)

OPERATOR(ADD, add, .inputs = 2, .rows = ROWS_ALONE, .axis = AXIS_SUMS, .check = inputs_agree,
         .extent = same_positions, .in_place = IN_PLACE_ANY)

/* weight[out, in / groups, kernel_height, kernel_width] over `window` */
OPERATOR(CONV2D, conv2d, .inputs = 1, .axis = AXIS_STARTS, .width = WIDTH_ROWS,
         .check = input_fits_weight, .extent = windows, .in_place = IN_PLACE_SECOND,
         .moves_window = true, .may_overflow = true, .looks_at_inputs = true)

/* weight[channels, 1, kernel_height, kernel_width] over `window`, each channel on its own */
OPERATOR(DEPTHWISE, depthwise, .inputs = 1, .check = rows_fit, .extent = windows,
         .moves_window = true, .per_channel = true, .may_overflow = true, .looks_at_inputs = true)

/* (x - mean) / sqrt(variance + epsilon) * weight + bias, per channel */
OPERATOR(BATCH_NORM, batch_norm, .inputs = 1, .rows = ROWS_ALONE, .check = rows_fit,
         .in_place = IN_PLACE_ANY, .per_channel = true, .looks_at_inputs = true)

/* over the entire width */
OPERATOR(LAYER_NORM, layer_norm, .inputs = 1, .rows = ROWS_ALONE, .pins = always,
         .check = channels_fit, .in_place = IN_PLACE_ANY, .looks_at_inputs = true)

/* over all positions of a sample and groups of `group` channels, with weight[channels] and
 * bias[channels]; groups of one leave the others what they are */
OPERATOR(GROUP_NORM, group_norm, .inputs = 1, .pins = mixes_channels, .check = channel_groups_fit,
         .per_channel = true, .looks_at_inputs = true)

/* over all positions of a sample: weight[channels] times the length of each channel by the mean of
 * these lengths + epsilon */
OPERATOR(RESPONSE_NORM, response_norm, .inputs = 1, .norms_width = always, .check = rows_fit,
         .extent = one_position, .looks_at_inputs = true)

/* over `window` */
OPERATOR(MAX_POOL, max_pool, .inputs = 1, .extent = windows, .moves_window = true,
         .looks_at_inputs = true)

/* over what `window`, without dilation, reads of the input, and with counts_padding of zeros around
 * it, too */
OPERATOR(AVERAGE_POOL, average_pool, .inputs = 1, .extent = windows, .moves_window = true)

/* another number of positions, as `resize` says */
OPERATOR(RESIZE, resize, .inputs = 1, .extent = resized)

/* over all positions of a sample */
OPERATOR(MEAN, mean, .inputs = 1, .extent = one_position)

/* every stride-th position; `pad` zero channels before and behind */
OPERATOR(SHORTCUT, shortcut, .inputs = 1, .pins = has_padding, .width = WIDTH_PADDED,
         .extent = windows, .moves_window = true)

/* square patches side by side: features (row, column, channel) */
OPERATOR(PATCHES, patches, .inputs = 1, .axis = AXIS_ENDS, .width = WIDTH_WINDOWS,
         .extent = windows_in_a_row, .moves_window = true)

/* channels of patches (channel, row, column) -> the channels of an image, in which the patches are
 * added up at the positions of `window`, and bias[channels]: behind a map a transposed convolution
 */
OPERATOR(PUT_PATCHES, put_patches, .inputs = 1, .axis = AXIS_PATCHES, .width = WIDTH_PATCHES,
         .check = patches_fit, .extent = windows_back, .moves_window = true, .per_channel = true,
         .may_overflow = true)

/* weight[width] as one more position before the others */
OPERATOR(CLASS_TOKEN, class_token, .inputs = 1, .pins = always, .check = channels_fit,
         .extent = one_position_more)

/* + weight[positions, width], or + table where there is no parameter; its first rows where an input
 * may have fewer positions and has; or its first row at every position */
OPERATOR(POSITIONS, positions, .inputs = 1, .pins = always, .check = channels_fit,
         .extent = stored_positions, .in_place = IN_PLACE_ANY)

/* weight[positions made, positions] times those of a sample, and bias[positions made]: each channel
 * by itself */
OPERATOR(MIX, mix, .inputs = 1, .extent = positions_mixed, .may_overflow = true,
         .looks_at_inputs = true)

/* position 0 of every sample */
OPERATOR(FIRST_TOKEN, first_token, .inputs = 1, .extent = one_position)

/* the positions of every sample behind its first ones, as an image or one below the other, `tokens`
 */
OPERATOR(TAKE_TOKENS, take_tokens, .inputs = 1, .extent = positions_taken)

/* the positions of squares as one, with the channels of all of them, `merge` */
OPERATOR(MERGE, merge, .inputs = 1, .axis = AXIS_ENDS, .width = WIDTH_MERGED, .extent = merged)

/* x / ||x||_2 per row */
OPERATOR(UNIT_LENGTH, unit_length, .inputs = 1, .rows = ROWS_ALONE, .pins = always,
         .in_place = IN_PLACE_ANY, .looks_at_inputs = true)

/* (x, y) -> each head of x with that of y behind it */
OPERATOR(JOIN_HEADS, join_heads, .inputs = 2, .rows = ROWS_ALONE, .axis = AXIS_BESIDE,
         .width = WIDTH_BESIDE, .check = sides_agree)

/* so many channels of zeros at the positions of x */
OPERATOR(ZEROS, zeros, .inputs = 1, .rows = ROWS_ALONE, .axis = AXIS_FRESH, .width = WIDTH_FRESH)

/* (x, y) or (x, y, z) -> side by side, one after the other */
OPERATOR(CONCAT, concat, .inputs = 2, .most_inputs = 3, .rows = ROWS_ALONE, .axis = AXIS_CONCAT,
         .width = WIDTH_SUM, .extent = same_positions)

/* the channels of a run, `slice` */
OPERATOR(SLICE, slice, .inputs = 1, .rows = ROWS_ALONE, .axis = AXIS_SLICE, .pins = run_stays,
         .width = WIDTH_SLICE, .check = run_fits)

/* a run of the channels of one position -> `unpack`: one of several inputs of the network */
OPERATOR(UNPACK, unpack, .inputs = 1, .axis = AXIS_ENDS, .width = WIDTH_UNPACKED,
         .check = packed_fits, .extent = unpacked)

/* the first channels of `runs` runs, then the second ones, ... */
OPERATOR(SHUFFLE, shuffle, .inputs = 1, .rows = ROWS_ALONE, .axis = AXIS_ENDS, .check = runs_fit)

/* up to eight values -> what other programs than grail compute of them, `region`: nothing is known
 * of it but the width of what it makes */
OPERATOR(OPAQUE, opaque, .inputs = 1, .most_inputs = 8, .axis = AXIS_ENDS, .width = WIDTH_REGION,
         .check = region_fits, .extent = region_positions_of, .may_overflow = true)

/* scores[rows, outputs] of a router -> the share of each output in each row, 0 of those that are
 * not chosen; weight[outputs]: what is added to what they are chosen by */
OPERATOR(ROUTE, route, .inputs = 1, .rows = ROWS_ALONE, .axis = AXIS_ENDS, .check = choice_fits,
         .looks_at_inputs = true)

/* (x, shares[rows, outputs]) -> the rows of x in which one output has a share, in their order */
OPERATOR(TAKE_ROWS, take_rows, .inputs = 2, .rows = ROWS_TAKEN, .axis = AXIS_ROUTED,
         .check = share_fits, .extent = routed_positions, .looks_at_inputs = true)

/* (those rows, shares, sum) -> sum, to which each row is added in its place, times its share */
OPERATOR(PUT_ROWS, put_rows, .inputs = 3, .rows = ROWS_PUT, .axis = AXIS_ROUTED,
         .check = share_fits, .extent = routed_positions, .in_place = IN_PLACE_THIRD,
         .looks_at_inputs = true)
