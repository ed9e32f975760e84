/* The header's functions under names that a test can look up. Compiled as C and as C++. */
#include "percolog_roi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A prototype of its own for each: warnings are errors here, and C warns of functions without one. */
uint64_t constant(int which);
int call_begin(void);
int call_end(uint64_t operations);
int call_label(const void *address, size_t length, const char *name);
int call_core(size_t number);

uint64_t constant(int which)
{
	static const uint64_t values[] = { PERCOLOG_ROI_SYSTEM_CALL, PERCOLOG_ROI_BEGIN, PERCOLOG_ROI_END, PERCOLOG_ROI_LABEL,
					   PERCOLOG_ROI_CORE };
	return values[which];
}

int call_begin(void)
{
	return percolog_roi_begin();
}

int call_end(uint64_t operations)
{
	return percolog_roi_end(operations);
}

int call_label(const void *address, size_t length, const char *name)
{
	return percolog_roi_label(address, length, name);
}

int call_core(size_t number)
{
	return percolog_roi_core(number);
}

#ifdef __cplusplus
}
#endif
