/* The backends: one line for each backend_NAME of a folder. Whoever includes this list defines
 * BACKEND. */
BACKEND(cpu)
BACKEND(cpu_bf16)
BACKEND(cpu_bf16_gram)
BACKEND(ref)
BACKEND(torch)
BACKEND(torch_cpu)
BACKEND(torch_cuda)
