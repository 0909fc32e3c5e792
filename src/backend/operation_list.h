/* The operations of a backend, a row each. From the rows follow the functions that callers use
 * (operations.h), the slots (kind.h), the checks (operations.c), and the prototypes and tables of
 * the kernels in each backend's folder. Whoever includes this list defines OPERATION, and
 * HOST_OPERATION where the rows of operations that all backends on the host share (host/) matter;
 * the end of the list takes both back.
 *
 *   OPERATION(name, matrices, parameters, shapes, fields of the operation...)
 *
 * `matrices` has one letter for each matrix, in the order of the operation's field m:
 *
 *   v values, packed         e values, any stride
 *   m values or a parameter  f the same, any stride   w the same, packed, or an ordered weight
 *   p f64, packed            s f64, any stride
 *   a any but an ordered weight                       c anything
 *
 * A capital letter is written (and perhaps read), and one behind '?' may be missing. `parameters`
 * are those of matrix_NAME, and `shapes` says of them what a correct call fulfils (shapes.h).
 *
 * Shapes are written X[rows, columns]. Outputs may not overlap inputs unless an operation says so.
 */
#ifndef HOST_OPERATION
#define HOST_OPERATION OPERATION
#endif

/* -- network: values --------------------------------------------------------------------------- */

/** Y[rows, out] = X[rows, in] W[out, in]^T + 1 b[1, out]; the bias may be missing. */
OPERATION(linear, "vw?mM", (matrix x, matrix weight, matrix bias, matrix y),
          x.columns == weight.columns && x.rows == y.rows && weight.rows == y.columns &&
              has_columns(bias, y.columns),
          .m = {x, weight, bias, y})

/** Y = weight * x / sqrt(mean(x^2) + epsilon) over groups of as many features as weight[1, .] has,
 * which all groups of a row share. Y may be X. */
OPERATION(rms_norm, "vmV", (double epsilon, matrix x, matrix weight, matrix y),
          same_shape(x, y) && groups_fit(x, weight), .m = {x, weight, y}, .with.epsilon = epsilon)

/** Rotates pairs (k, k + turned/2) of every head of X[sequences * length, heads * head_dim] in
 * place by position * frequency[k] and multiplies them by `factor`; positions count from 0 in each
 * sequence. */
OPERATION(rope, "V", (const rope_shape *shape, matrix x), rotation_fits(shape, x), .m = {x},
          .with.rope = shape)

/** OUT[rows, query_heads*value_dim] = softmax(cap(scale Q K^T) + biases + mask) V per head, without
 * a length x length matrix. Q[rows, query_heads*head_dim], K[rows, kv_heads*head_dim], V[rows,
 * kv_heads*value_dim]. Each softmax also sums over the head's sink[1, query_heads], a score
 * whose value is 0; it may be missing. So may biases, which lie as bias_places says, are finite,
 * and go with no cap. */
OPERATION(attention, "vvvV?m?m",
          (const attention_shape *shape, matrix q, matrix k, matrix v, matrix out, matrix sinks,
           matrix biases),
          attention_fits(shape, q, k, v, out) && has_columns(sinks, shape->query_heads) &&
              biases_fit(shape, biases),
          .m = {q, k, v, out, sinks, biases}, .with.attention = shape)

/** Y = f(X); Y may be X. */
OPERATION(activate, "vV", (activation_kind kind, matrix x, matrix y), same_shape(x, y), .m = {x, y},
          .with.activation = kind)

/** Y = cap tanh(X / cap); Y may be X. */
OPERATION(soft_cap, "vV", (double cap, matrix x, matrix y), same_shape(x, y), .m = {x, y},
          .with.alpha = cap)

/** Y = min(max(X, low), high) + offset, NaN where X is; Y may be X. */
HOST_OPERATION(clamp, "vV", (const clamp_attributes *bounds, matrix x, matrix y), same_shape(x, y),
               .m = {x, y}, .with.clamp = bounds)

/** Y = A * B, A + B elementwise, with any row strides; Y may be A. B has the shape of Y, then Y may
 * be B, too; or it is spread over Y: each of its rows over as many rows that follow each other as
 * Y has for one, and a single column over all columns. So it may be a row for each sample, one for
 * all, or a column. */
OPERATION(multiply, "ffF", (matrix a, matrix b, matrix y), same_shape(a, y) && spreads_to(b, y),
          .m = {a, b, y})
OPERATION(add, "ffF", (matrix a, matrix b, matrix y), same_shape(a, y) && spreads_to(b, y),
          .m = {a, b, y})

/** Y = A - B elementwise, with any row strides; Y may be A or B. */
OPERATION(subtract, "eeE", (matrix a, matrix b, matrix y), same_shape(a, y) && same_shape(b, y),
          .m = {a, b, y})

/** Y[i, :] = factor[0, i] X[i, :] with f64 factors, any row strides, both of one type; Y may be X.
 */
HOST_OPERATION(scale_rows, "paA", (matrix factor, matrix x, matrix y),
               same_shape(x, y) && x.type == y.type && is_row(factor, x.rows), .m = {factor, x, y})

/** Y = factor X with products in f64, any row strides, both of one type; Y may be X. */
HOST_OPERATION(scale, "aA", (double factor, matrix x, matrix y),
               same_shape(x, y) && x.type == y.type, .m = {x, y}, .with.alpha = factor)

/** Shares Y of a router's scores X[rows, outputs] as `how` says, in f64 before they are rounded;
 * what is chosen by has added[1, outputs] added, which may be missing. Y[:, i] are those of the
 * scores X[:, order[i]]; NULL stands for 0, 1, 2, ... Scores are finite. */
HOST_OPERATION(route, "v?mV",
               (const route_attributes *how, const int64_t *order, matrix x, matrix added,
                matrix y),
               same_shape(x, y) && has_columns(added, x.columns) &&
                   indices_fit(order, y.columns, x.columns),
               .m = {x, added, y}, .with = {.route = how, .columns = order})

/** Adds the logits X[rows, .] of classes `first` and on to the sums of their rows, one target and
 * one entropy_sums per row, both on the host. The classes come in panels in ascending order:
 * `first` 0 begins the sums. Logits are finite. */
OPERATION(cross_entropy, "m",
          (matrix logits, int64_t first, const int32_t *target, entropy_sums *sums), true,
          .m = {logits}, .with = {.begin = first, .target = target, .entropy = sums})

/** *index = row * columns + column of the first NaN or infinity, or -1; any type and stride. With
 * `lower` only the lower triangle of a square matrix is searched. */
HOST_OPERATION(find_non_finite, "a", (bool lower, matrix x, int64_t *index), !lower || is_square(x),
               .m = {x}, .with = {.lower = lower, .index = index})

/** status[1, 1] = max(status, rank - index) with the index that find_non_finite gives; as it was
 * where all is finite. No value goes to the host. */
HOST_OPERATION(mark_non_finite, "aP", (bool lower, double rank, matrix x, matrix status),
               (!lower || is_square(x)) && is_row(status, 1), .m = {x, status},
               .with = {.lower = lower, .alpha = rank})

/** Y[samples * out positions, channels_out] = conv(X, weight[channels_out, channels_in / groups *
 * taps]) + bias + residual, then min(max(., 0), ceiling) where the ceiling, which may be INFINITY,
 * is not 0; bias and residual may be missing, and the residual may be Y. */
OPERATION(conv2d, "vm?m?vV",
          (const conv_shape *shape, double ceiling, matrix x, matrix weight, matrix bias,
           matrix residual, matrix y),
          convolution_fits(shape, x, weight, y) && has_columns(bias, y.columns) &&
              has_shape(residual, y),
          .m = {x, weight, bias, residual, y}, .with = {.conv = shape, .ceiling = ceiling})

/** Y[samples * out positions, c] = conv(X[., c], weight[c, taps]) + bias[c], each channel on its
 * own, then as above; bias may be missing. */
OPERATION(depthwise, "vm?mV",
          (const conv_shape *shape, double ceiling, matrix x, matrix weight, matrix bias, matrix y),
          kernels_fit(shape, x, weight, y) && has_columns(bias, y.columns),
          .m = {x, weight, bias, y}, .with = {.conv = shape, .ceiling = ceiling})

/** The patches that the window reads: P[rows * out.width, channels_in * taps], features in the
 * order of a weight's row: channel, then tap row, then tap column; 0 outside. Only the output rows
 * [begin, end) of all samples * out.height are made. */
OPERATION(patches, "vV", (const conv_shape *shape, int64_t begin, int64_t end, matrix x, matrix p),
          patches_fit(shape, begin, end, x, p), .m = {x, p},
          .with = {.conv = shape, .begin = begin, .end = end})

/** The reverse: X[samples * in, channels_in] = what all patches P of X hold of each position, added
 * up; 0 where none holds anything. */
OPERATION(put_patches, "vV", (const conv_shape *shape, matrix p, matrix x),
          patches_fit(shape, 0, shape->samples * shape->out.height, x, p), .m = {p, x},
          .with.conv = shape)

/** Maximum over the window, per channel (channels_out == channels_in). */
OPERATION(max_pool, "vV", (const conv_shape *shape, matrix x, matrix y), window_fits(shape, x, y),
          .m = {x, y}, .with.conv = shape)

/** The mean over what the window reads inside the input, per channel (channels_out == channels_in);
 * with counts_padding over the positions around the input, too, as zeros. No dilation; 0 where
 * there is nothing to read. */
OPERATION(average_pool, "vV", (const conv_shape *shape, bool counts_padding, matrix x, matrix y),
          averages_fit(shape, x, y), .m = {x, y},
          .with = {.conv = shape, .counts_padding = counts_padding})

/** Y[samples, columns] = mean over the rows of every sample. */
OPERATION(mean_positions, "vV", (matrix x, matrix y),
          x.columns == y.columns && (y.rows == 0 ? x.rows == 0 : x.rows % y.rows == 0), .m = {x, y})

/** Y = (x - mean) / sqrt(variance + epsilon) * weight + bias per column; weight and bias may be
 * missing; Y may be X. */
OPERATION(batch_norm, "vmm?m?mV",
          (double epsilon, matrix x, matrix mean, matrix variance, matrix weight, matrix bias,
           matrix y),
          same_shape(x, y) && is_row(mean, x.columns) && is_row(variance, x.columns) &&
              has_columns(weight, x.columns) && has_columns(bias, x.columns),
          .m = {x, mean, variance, weight, bias, y}, .with.epsilon = epsilon)

/** The same with each row's own mean and variance (biased). */
OPERATION(layer_norm, "v?m?mV", (double epsilon, matrix x, matrix weight, matrix bias, matrix y),
          same_shape(x, y) && has_columns(weight, x.columns) && has_columns(bias, x.columns),
          .m = {x, weight, bias, y}, .with.epsilon = epsilon)

/** Y = x / max(||x||_2, 1e-12) per row; Y may be X. */
OPERATION(unit_length, "vV", (matrix x, matrix y), same_shape(x, y), .m = {x, y})

/** Every stride-th position in both directions, with `pad` zeros before and behind its channels. */
HOST_OPERATION(shortcut, "vV", (const position_shape *shape, matrix x, matrix y),
               shortcut_fits(shape, x, y), .m = {x, y}, .with.positions = shape)

/** The windows of an image as rows, Y[samples * windows, kernel_height * kernel_width * c]:
 * position after position, each with all its channels. No padding, no dilation. */
HOST_OPERATION(windows, "vV", (const position_shape *shape, matrix x, matrix y),
               windows_fit(shape, x, y), .m = {x, y}, .with.positions = shape)

/* -- gradients: values --------------------------------------------------------------------------
 *
 * dY stands for the gradient of a loss with respect to the output Y of an operation; each of these
 * makes from it the gradients with respect to that operation's inputs. The gradient of an input,
 * dX, is overwritten; that of a parameter is added to what is there, so that it sums over batches.
 * One that is not wanted is missing. Sums over the features of a row and over rows are f64 where
 * those of the operation are. */

/** C[m, n] = op(A) op(B) + beta C, op is transposition when the flag is set. For Y = X W^T + 1 b:
 * dX = dY W, dW += dY^T X. B is an ordered weight in the first of these alone. */
OPERATION(product, "vwM",
          (bool transpose_a, bool transpose_b, matrix a, matrix b, double beta, matrix c),
          product_fits(transpose_a, transpose_b, a, b, c), .m = {a, b, c},
          .with = {.transpose_a = transpose_a, .transpose_b = transpose_b, .beta = beta})

/** With s = sqrt(mean(x^2) + epsilon) of each group: dX = weight dy / s - x sum(weight dy x) /
 * (group s^3), dweight += sum over groups of dy x / s. dX may be dY. */
OPERATION(rms_norm_gradient, "vmvV?M",
          (double epsilon, matrix x, matrix weight, matrix dy, matrix dx, matrix dweight),
          same_shape(x, dy) && same_shape(x, dx) && groups_fit(x, weight) &&
              has_columns(dweight, weight.columns),
          .m = {x, weight, dy, dx, dweight}, .with.epsilon = epsilon)

/** With xn = (x - mean) / s and g = weight dy of a row: dX = (g - mean(g) - xn mean(g xn)) / s,
 * dweight += sum over rows of dy xn, dbias += sum over rows of dy. weight may be missing; dX may be
 * dY. */
OPERATION(layer_norm_gradient, "v?mvV?M?M",
          (double epsilon, matrix x, matrix weight, matrix dy, matrix dx, matrix dweight,
           matrix dbias),
          same_shape(x, dy) && same_shape(x, dx) && has_columns(weight, x.columns) &&
              has_columns(dweight, x.columns) && has_columns(dbias, x.columns),
          .m = {x, weight, dy, dx, dweight, dbias}, .with.epsilon = epsilon)

/** With fixed mean and variance, s = sqrt(variance + epsilon): dX = weight dy / s, dweight += sum
 * over rows of dy (x - mean) / s, dbias += sum over rows of dy. weight may be missing; dX may be
 * dY. */
OPERATION(batch_norm_gradient, "vmm?mv?V?M?M",
          (double epsilon, matrix x, matrix mean, matrix variance, matrix weight, matrix dy,
           matrix dx, matrix dweight, matrix dbias),
          same_shape(x, dy) && has_shape(dx, x) && is_row(mean, x.columns) &&
              is_row(variance, x.columns) && has_columns(weight, x.columns) &&
              has_columns(dweight, x.columns) && has_columns(dbias, x.columns),
          .m = {x, mean, variance, weight, dy, dx, dweight, dbias}, .with.epsilon = epsilon)

/** Y = x / l, l = max(||x||_2, 1e-12): dX = (dy - y (y . dy)) / l, or dy / l where l is the bound;
 * dX may be dY. */
OPERATION(unit_length_gradient, "vvV", (matrix x, matrix dy, matrix dx),
          same_shape(x, dy) && same_shape(x, dx), .m = {x, dy, dx})

/** Per head, P the weights of the softmax and D = sum(dout out) of each row: dV = P^T dOUT,
 * dS = P (dOUT V^T - D) (times the slope of the cap), dQ = scale dS K, dK = scale dS^T Q; dK and dV
 * sum over the query heads that share a key/value head. With the sink's weight p of each row
 * dsinks += sum over rows of -p D; dsinks may be missing. `out` is what matrix_attention made of
 * the same sinks and biases, which have no gradient. */
OPERATION(attention_gradient, "vvvvvVVV?m?M?m",
          (const attention_shape *shape, matrix q, matrix k, matrix v, matrix out, matrix dout,
           matrix dq, matrix dk, matrix dv, matrix sinks, matrix dsinks, matrix biases),
          attention_fits(shape, q, k, v, out) && k.rows == q.rows && same_shape(out, dout) &&
              same_shape(q, dq) && same_shape(k, dk) && same_shape(v, dv) &&
              has_columns(sinks, shape->query_heads) && biases_fit(shape, biases) &&
              (!matrix_exists(dsinks) || (matrix_exists(sinks) && same_shape(sinks, dsinks))),
          .m = {q, k, v, out, dout, dq, dk, dv, sinks, dsinks, biases}, .with.attention = shape)

/** For Y = route(X) in the order of scores, dY being 0 where nothing is chosen: with the parts p,
 * which are s exp(x) or s sigmoid(x) and sum to 1 over what counts, dX_o = scale p_o (dy_o - sum p
 * dy), for a sigmoid times 1 - sigmoid(x_o); where a share is the sigmoid itself, nothing is
 * subtracted. What is chosen has no gradient. dX may be dY. */
HOST_OPERATION(route_gradient, "v?mvV",
               (const route_attributes *how, matrix x, matrix added, matrix dy, matrix dx),
               same_shape(x, dy) && same_shape(x, dx) && has_columns(added, x.columns),
               .m = {x, added, dy, dx}, .with.route = how)

/** dX = f'(x) dy; that of relu is 0 at 0. dX may be dY. */
OPERATION(activate_gradient, "vvV", (activation_kind kind, matrix x, matrix dy, matrix dx),
          same_shape(x, dy) && same_shape(x, dx), .m = {x, dy, dx}, .with.activation = kind)

/** For Y = cap tanh(X / cap): dX = (1 - (y / cap)^2) dy; dX may be dY. */
OPERATION(soft_cap_gradient, "vvV", (double cap, matrix y, matrix dy, matrix dx),
          same_shape(y, dy) && same_shape(y, dx), .m = {y, dy, dx}, .with.alpha = cap)

/** For Y = clamp(X): dX = dy where X lies within the bounds, 0 elsewhere; dX may be dY. */
HOST_OPERATION(clamp_gradient, "vvV",
               (const clamp_attributes *bounds, matrix x, matrix dy, matrix dx),
               same_shape(x, dy) && same_shape(x, dx), .m = {x, dy, dx}, .with.clamp = bounds)

/** For Y = A * B, or without A for Y = A + B: dB = what B was spread over, summed of dY * A or of
 * dY, in f64. (dA is dY * B, or dY.) */
OPERATION(spread_gradient, "e?eF", (matrix a, matrix dy, matrix db),
          has_shape(a, dy) && spreads_to(db, dy), .m = {dy, a, db})

/** The gradients of Y = conv(X, weight) + bias. All three gradients may be missing. */
OPERATION(conv2d_gradient, "vmv?V?M?M",
          (const conv_shape *shape, matrix x, matrix weight, matrix dy, matrix dx, matrix dweight,
           matrix dbias),
          convolution_fits(shape, x, weight, dy) && has_shape(dx, x) &&
              has_shape(dweight, weight) && has_columns(dbias, dy.columns),
          .m = {x, weight, dy, dx, dweight, dbias}, .with.conv = shape)

/** The gradients of Y = depthwise(X, weight) + bias; dbias is that of a sum over rows. Both
 * gradients may be missing. */
OPERATION(depthwise_gradient, "vmv?V?M",
          (const conv_shape *shape, matrix x, matrix weight, matrix dy, matrix dx, matrix dweight),
          kernels_fit(shape, x, weight, dy) && has_shape(dx, x) && has_shape(dweight, weight),
          .m = {x, weight, dy, dx, dweight}, .with.conv = shape)

/** dy goes to the first of the largest elements of each window. */
OPERATION(max_pool_gradient, "vvV", (const conv_shape *shape, matrix x, matrix dy, matrix dx),
          window_fits(shape, x, dy) && same_shape(x, dx), .m = {x, dy, dx}, .with.conv = shape)

/** For Y = average_pool(X): dX. */
OPERATION(average_pool_gradient, "vV",
          (const conv_shape *shape, bool counts_padding, matrix dy, matrix dx),
          averages_fit(shape, dx, dy), .m = {dy, dx},
          .with = {.conv = shape, .counts_padding = counts_padding})

/** Zero at the positions and channels that matrix_shortcut did not take or make. */
HOST_OPERATION(shortcut_gradient, "vV", (const position_shape *shape, matrix dy, matrix dx),
               shortcut_fits(shape, dx, dy), .m = {dy, dx}, .with.positions = shape)

/** divergence[0, i] = KL(p || q) of row i, with p = softmax(target), q = softmax(logits); gradient
 * = scale (q - p), which may be `logits` or missing. */
OPERATION(divergence, "mm?MP",
          (matrix target, matrix logits, double scale, matrix gradient, matrix divergence),
          same_shape(target, logits) && has_shape(gradient, logits) &&
              is_row(divergence, logits.rows),
          .m = {target, logits, gradient, divergence}, .with.alpha = scale)

/** m = first_decay m + (1 - first_decay) g, v = second_decay v + (1 - second_decay) g^2,
 * w -= rate (m / first_share) / (sqrt(v / second_share) + epsilon). All have one shape. Without
 * `first` first_decay is 0. */
OPERATION(descend, "m?MMM",
          (const descent *step, matrix gradient, matrix first, matrix second, matrix weight),
          same_shape(gradient, weight) && same_shape(second, weight) && has_shape(first, weight) &&
              (matrix_exists(first) || step->first_decay == 0.0),
          .m = {gradient, first, second, weight}, .with.descent = step)

/* -- statistics: f64 sums of products of values ------------------------------------------------ */

/** Lower triangle of G[n, n] += X[rows, n]^T X, X with any row stride; the upper one is left alone.
 * Products of a panel of rows may be formed in the precision of values, their sum over panels is
 * f64. */
OPERATION(gram, "eP", (matrix x, matrix g), g.rows == x.columns && g.columns == x.columns,
          .m = {x, g})

/** C[m, n] += Y[rows, m]^T X[rows, n]. */
OPERATION(cross, "eeP", (matrix y, matrix x, matrix c), product_fits(true, false, y, x, c),
          .m = {y, x, c})

/** sum[1, n] += column sums of X, square[1, n] += those of its squares (either may be missing); row
 * i counts weight[0, i] times in both, once without weights. */
OPERATION(column_sums, "e?p?P?P", (matrix x, matrix weight, matrix sum, matrix square),
          has_columns(weight, x.rows) && has_columns(sum, x.columns) &&
              has_columns(square, x.columns),
          .m = {x, weight, sum, square})

/** sum[1, 1] += A[i, j] B[i, j] of all elements, as row_dots gives those of a row, one row after
 * the other; A and B of one type, any strides. Without B the elements of A in f64 are added. */
HOST_OPERATION(add_products, "a?aP", (matrix a, matrix b, matrix sum),
               has_shape(b, a) && a.type == (matrix_exists(b) ? b.type : GRAIL_DTYPE_F64) &&
                   is_one(sum),
               .m = {a, b, sum})

/** Y = 1 / sqrt(min(max(x, low), high)), or 0 where that is no root; Y may be X. */
HOST_OPERATION(inverse_roots, "pP", (double low, double high, matrix x, matrix y), same_shape(x, y),
               .m = {x, y}, .with = {.alpha = low, .beta = high})

/** Y = sqrt(x / divisor + added); Y may be X. */
HOST_OPERATION(roots, "pP", (double divisor, double added, matrix x, matrix y), same_shape(x, y),
               .m = {x, y}, .with = {.alpha = divisor, .beta = added})

/** Y = sqrt(share m / x) where x is above share m > 0, else 1, for a number m[1, 1]; Y may be X. */
HOST_OPERATION(limit_roots, "ppP", (double share, matrix m, matrix x, matrix y),
               is_one(m) && same_shape(x, y), .m = {m, x, y}, .with.alpha = share)

/** All of share[1, n] = share_of_gap(gap[1, 1], target[1, 1]). */
HOST_OPERATION(gap_share, "ppP", (matrix gap, matrix target, matrix share),
               is_one(gap) && is_one(target) && is_row(share, share.columns),
               .m = {gap, target, share})

/** out[1, 1] = the upper median of X[1, n], 0 where n is 0. */
HOST_OPERATION(median, "pP", (matrix x, matrix out), is_row(x, x.columns) && is_one(out),
               .m = {x, out})

/** Y = 1 / x, and 0 where x is 0; Y may be X. */
HOST_OPERATION(inverses, "pP", (matrix x, matrix y), same_shape(x, y), .m = {x, y})

/** Y = 1 / min(max(x, low m), high m), or 0 where that is none, with the upper median m of all
 * elements; where m is 0 there is no upper bound. Y may be X. */
HOST_OPERATION(inverse_bounded, "pP", (double low, double high, matrix x, matrix y),
               same_shape(x, y), .m = {x, y}, .with = {.alpha = low, .beta = high})

/** X = 2^round(log2(x)), and 0 stays: factors that lose no bit of values of 16 bits. */
HOST_OPERATION(nearest_powers, "P", (matrix x), true, .m = {x})

/** norm[1, 1] = ||x||_2 of all elements, and X /= norm. */
HOST_OPERATION(normalise, "PP", (matrix x, matrix norm), is_row(norm, 1), .m = {x, norm})

/* -- copies: any type and stride, converted to the output's type ------------------------------- */

HOST_OPERATION(copy, "cC", (matrix in, matrix out), same_shape(in, out), .m = {in, out})

/** X = what a number of this type, F16 or BF16, holds of each value, rounded to nearest. One beyond
 * its range is GRAIL_ERROR_NUMERIC on the host, and infinite on a device, where callers watch. */
HOST_OPERATION(round_to, "F", (grail_dtype type, matrix x),
               type == GRAIL_DTYPE_F16 || type == GRAIL_DTYPE_BF16, .m = {x}, .with.type = type)

/** M = 0 */
HOST_OPERATION(zero, "A", (matrix m), true, .m = {m})

/** out[i, j] = in[rows[i], columns[j]]; NULL stands for 0, 1, 2, ... Both lists ascend where `out`
 * begins where `in` does, with rows no further apart. */
HOST_OPERATION(gather, "aA", (const int64_t *rows, const int64_t *columns, matrix in, matrix out),
               indices_fit(rows, out.rows, in.rows) &&
                   indices_fit(columns, out.columns, in.columns),
               .m = {in, out}, .with = {.rows = rows, .columns = columns})

/** out[:, j] = in[:, index[0, j]] of one type, for a list that lies where the matrices do: indices
 * are whole numbers below in.columns, which nothing checks. */
HOST_OPERATION(take_columns, "paA", (matrix index, matrix in, matrix out),
               in.type == out.type && in.rows == out.rows && is_row(index, out.columns),
               .m = {index, in, out})

/** out[i, :] = in[index[0, i], :], likewise. */
HOST_OPERATION(take_rows, "paA", (matrix index, matrix in, matrix out),
               in.type == out.type && in.columns == out.columns && is_row(index, out.rows),
               .m = {index, in, out})

/** out[index[0, i], :] += share[0, i] in[i, :], likewise, for indices that differ from each other;
 * all shares are 1 where they are missing. */
HOST_OPERATION(add_rows, "p?paA", (matrix index, matrix share, matrix in, matrix out),
               in.type == out.type && in.columns == out.columns && is_row(index, in.rows) &&
                   has_shape(share, index),
               .m = {index, share, in, out})

/** The rows that have a share of each output: with n = rows outputs of S[rows, outputs], index[1,
 * n] has the r with S[r, o] > 0, output after output and ascending, share[1, n] these shares, and
 * begin[1, outputs + 1] the places where those of each output begin, and the end. Behind it are
 * zeros. */
HOST_OPERATION(list_rows, "ePPP", (matrix shares, matrix index, matrix share, matrix begin),
               is_row(index, matrix_count(shares)) && same_shape(index, share) &&
                   is_row(begin, shares.columns + 1),
               .m = {shares, index, share, begin})

/** out[:, labels[j] u + f] += share[labels[j]] in[:, j u + f] for units j = 0 .. units - 1, each of
 * u features; both matrices of one type. */
HOST_OPERATION(fold_columns, "aA",
               (int64_t units, const int64_t *labels, const double *share, matrix in, matrix out),
               in.type == out.type && in.rows == out.rows &&
                   units_fit(units, labels, in.columns, out.columns),
               .m = {in, out}, .with = {.units = units, .labels = labels, .share = share})

/** The same for rows: out[labels[j] u + f, :] += share[labels[j]] in[j u + f, :]. */
HOST_OPERATION(fold_rows, "aA",
               (int64_t units, const int64_t *labels, const double *share, matrix in, matrix out),
               in.type == out.type && in.columns == out.columns &&
                   units_fit(units, labels, in.rows, out.rows),
               .m = {in, out}, .with = {.units = units, .labels = labels, .share = share})

/* -- dense f64 algebra ------------------------------------------------------------------------- */

/** C[m, n] = alpha op(A) op(B) + beta C; op is transposition when the flag is set. */
OPERATION(
    gemm, "ssS",
    (bool transpose_a, bool transpose_b, double alpha, matrix a, matrix b, double beta, matrix c),
    product_fits(transpose_a, transpose_b, a, b, c), .m = {a, b, c},
    .with = {.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = alpha, .beta = beta})

/** Lower triangle of C[n, n] += alpha A[k, n]^T B[k, n], where the product is symmetric. The strict
 * upper triangle is scratch. */
OPERATION(add_symmetric, "ssS", (double alpha, matrix a, matrix b, matrix c),
          same_shape(a, b) && is_square(c) && c.columns == a.columns, .m = {a, b, c},
          .with.alpha = alpha)

/** Y += alpha X; X may also be f32. */
HOST_OPERATION(add_scaled, "aS", (double alpha, matrix x, matrix y), same_shape(x, y), .m = {x, y},
               .with.alpha = alpha)

/** A[m, n] += alpha x[1, m]^T y[1, n]; with `lower` only in the lower triangle. */
HOST_OPERATION(add_outer, "ppS", (bool lower, double alpha, matrix x, matrix y, matrix a),
               x.rows == 1 && y.rows == 1 && a.rows == x.columns && a.columns == y.columns &&
                   (!lower || is_square(a)),
               .m = {x, y, a}, .with = {.lower = lower, .alpha = alpha})

/** d[1, n] = diagonal of A[n, n], and back. */
HOST_OPERATION(diagonal, "sP", (matrix a, matrix d), is_square(a) && is_row(d, a.columns),
               .m = {a, d})
HOST_OPERATION(set_diagonal, "pS", (matrix d, matrix a), is_square(a) && is_row(d, a.columns),
               .m = {d, a})

/** A[n, n] += value I */
HOST_OPERATION(shift_diagonal, "S", (double value, matrix a), is_square(a), .m = {a},
               .with.alpha = value)

/** Copies the strict lower triangle of A[n, n] onto the strict upper one, or back. */
HOST_OPERATION(fill_upper, "S", (matrix a), is_square(a), .m = {a})
HOST_OPERATION(fill_lower, "S", (matrix a), is_square(a), .m = {a})

/** out[0, i] = sum_j A[i, j] B[i, j], summed in f64; A and B may also be f32, both. */
HOST_OPERATION(row_dots, "aaP", (matrix a, matrix b, matrix out),
               same_shape(a, b) && a.type == b.type && is_row(out, a.rows), .m = {a, b, out})

/** A[:, j] /= divisor[0, j] */
HOST_OPERATION(divide_columns, "pS", (matrix divisor, matrix a), is_row(divisor, a.columns),
               .m = {divisor, a})

/** Cholesky: reads the lower triangle of A[n, n] and overwrites it with L, A = L L^T. The strict
 * upper triangle is not touched. *pivot is -1, or the index of the first pivot that is not
 * positive. */
OPERATION(cholesky, "S", (matrix a, int64_t *pivot), is_square(a), .m = {a}, .with.index = pivot)

/** B[rows, n] <- B (L L^T)^-1 with the lower triangle of L[n, n]. */
OPERATION(cholesky_solve, "sS", (matrix l, matrix b), is_square(l) && b.columns == l.columns,
          .m = {l, b})

/** B[rows, n] <- B L L^T. */
HOST_OPERATION(cholesky_multiply, "sS", (matrix l, matrix b),
               is_square(l) && b.columns == l.columns, .m = {l, b})

/** Both triangles of L[n, n] <- (L L^T)^-1, of which the lower triangle is read. */
OPERATION(cholesky_invert, "S", (matrix l), is_square(l), .m = {l})

/** Symmetric eigendecomposition of the packed A[n, n] (lower triangle read): values[1, n]
 * ascending, row i of A becomes the eigenvector of values[i]. */
OPERATION(eigen, "PP", (matrix a, matrix values), is_square(a) && is_row(values, a.columns),
          .m = {a, values})

/* -- elimination of units: f64 (reduce/elimination.h) --------------------------------------------
 *
 * A and M are symmetric matrices [n u, n u] of n units of u features, whose lower triangles are
 * read. Their blocks [2 n, u u] are those on the diagonal of A, then those of M. `unit`[1, 1] is
 * the number of a unit, which the host need not know. Pairs of rows are U in the even rows and V in
 * the odd ones. What is computed of a block A_j takes A_j + jitter I = L L^T, or gives `missing`
 * where that is not positive definite. */

/** The blocks of A and M, both triangles of each. */
HOST_OPERATION(unit_blocks, "ssP", (matrix a, matrix m, matrix blocks),
               is_square(a) && same_shape(a, m) && blocks_fit(blocks, a.columns),
               .m = {a, m, blocks})

/** values[0, j] = tr(A_j^-1 M_j), or sum_i (M_j)_ii / L_ii^2; no less than 0, and 0 where gone[0,
 * j] is infinite instead of 0. */
HOST_OPERATION(unit_values, "ppP",
               (unit_value kind, double jitter, double missing, matrix blocks, matrix gone,
                matrix values),
               blocks_fit(blocks, values.columns *block_features(blocks)) && values.rows == 1 &&
                   same_shape(gone, values),
               .m = {blocks, gone, values},
               .with = {.value = kind, .epsilon = jitter, .alpha = missing})

/** unit = j of the least value, or with `largest` of the largest, among those with gone[0, j] = 0,
 * the first of several; gone[0, j] is infinite then. */
HOST_OPERATION(choose_unit, "pPP", (bool largest, matrix values, matrix gone, matrix unit),
               same_shape(values, gone) && values.rows == 1 && is_one(unit),
               .m = {values, gone, unit}, .with.largest = largest)

/** What the elimination of a unit j takes:
 *
 *   rows[2 u, n u]       the rows A_j:, then M_j:
 *   factors[2 u, 2 p]    by which these lose what p pairs of rows [2 p, n u] took, where there are
 *                        some: A_j: loses sum U[., j]^T U, M_j: sum U[., j]^T V + V[., j]^T U
 *   transform[2 u, 2 u]  from the rows to the pairs by which the elimination changes A and M: with
 *                        T = L^-1 the rows U are T A_j:, and V are T M_j: - T M_j T^T T A_j: / 2
 */
HOST_OPERATION(read_unit, "pssp?pP?PP",
               (double jitter, double missing, matrix unit, matrix a, matrix m, matrix blocks,
                matrix pairs, matrix rows, matrix factors, matrix transform),
               is_one(unit) && is_square(a) && same_shape(a, m) && blocks_fit(blocks, a.columns) &&
                   rows.columns == a.columns && rows.rows == 2 * block_features(blocks) &&
                   is_square(transform) && transform.rows == rows.rows &&
                   factors_fit(factors, rows, pairs),
               .m = {unit, a, m, blocks, pairs, rows, factors, transform},
               .with = {.epsilon = jitter, .alpha = missing})

/** A_j -= U_j^T U_j, M_j -= U_j^T V_j + V_j^T U_j for u pairs of rows [2 u, n u]. */
HOST_OPERATION(subtract_pairs, "pP", (matrix pairs, matrix blocks),
               blocks_fit(blocks, pairs.columns) && pairs.rows == 2 * block_features(blocks),
               .m = {pairs, blocks})

#undef OPERATION
#undef HOST_OPERATION
