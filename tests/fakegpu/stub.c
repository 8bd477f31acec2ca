/* libnvidia-ml.so as the CUDA toolkit has it in lib64/stubs, to link programs with: it writes a banner and does nothing. */
#include <stdio.h>

static int banner(void) {
  printf("WARNING:\n\nYou should always run with libnvidia-ml.so that is installed with your\nNVIDIA Display Driver. "
         "By default it's installed in /usr/lib and /usr/lib64.\nlibnvidia-ml.so in GDK package is a stub library that is "
         "attached only for\nbuild purposes.\n\n");
  fprintf(stderr, "banner on standard error\n");
  fflush(stdout);
  return 12; /* NVML_ERROR_LIBRARY_NOT_FOUND */
}
int nvmlInit_v2(void) { return banner(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return banner(); }
int nvmlShutdown(void) { return banner(); }
const char *nvmlErrorString(int code) { (void)code; banner(); return "banner"; }
