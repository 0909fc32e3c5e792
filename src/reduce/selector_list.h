/* The selectors: one line for each selector_NAME of a file select_*.c. Their order is that of
 * listings and of styles in reports. Whoever includes this list defines SELECTOR. */
SELECTOR(random)
SELECTOR(magnitude_l1)
SELECTOR(magnitude_l2)
SELECTOR(wanda)
SELECTOR(fold)
SELECTOR(random_fold)
