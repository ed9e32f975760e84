/* Marks for percolog-sim, the coherence simulator: which part of a program counts, how many operations that part made, and
 * what its memory is called. C99 or C++98 and later; GCC, Clang, or a compiler that reads their inline assembly.
 *
 *     percolog_roi_label(&hits, sizeof hits, "hits");
 *     percolog_roi_begin();
 *     for (int i = 0; i < 1000; i++) atomic_fetch_add(&hits, 1);
 *     percolog_roi_end(1000);
 *
 * A marked program runs unchanged where there is no simulator: each mark is one system call with a number that no kernel has.
 * It costs 50 to 200 ns, does not touch errno, and is a barrier for the compiler, not for the processor. On other targets than
 * Linux on x86-64 and aarch64 a mark is nothing at all.
 *
 * Every function returns 1 if a simulator has answered, and 0 otherwise.
 *
 * Licensed under MIT or Apache-2.0, as you prefer. */
#ifndef PERCOLOG_ROI_H
#define PERCOLOG_ROI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The number of the system call: "PERO" in ASCII. */
#define PERCOLOG_ROI_SYSTEM_CALL 0x5045524FL
/* Its first argument: what is marked. */
#define PERCOLOG_ROI_BEGIN 1
#define PERCOLOG_ROI_END 2
#define PERCOLOG_ROI_LABEL 3
#define PERCOLOG_ROI_CORE 4

#ifdef __cplusplus
extern "C" {
#endif

/* One mark; used by the functions below. */
static inline int percolog_roi_mark(uint64_t operation, uint64_t second, uint64_t third, uint64_t fourth, uint64_t fifth)
{
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
	int64_t answer;
	/* There are no constraints for r10 and r8; a variable in the register is the documented way. */
	register uint64_t in_r10 __asm__("r10") = fourth;
	register uint64_t in_r8 __asm__("r8") = fifth;
	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"((int64_t)PERCOLOG_ROI_SYSTEM_CALL), "D"(operation), "S"(second), "d"(third), "r"(in_r10), "r"(in_r8)
			 : "rcx", "r11", "memory");
	return answer == 0;
#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)
	register uint64_t in_x8 __asm__("x8") = PERCOLOG_ROI_SYSTEM_CALL;
	register uint64_t in_x0 __asm__("x0") = operation;
	register uint64_t in_x1 __asm__("x1") = second;
	register uint64_t in_x2 __asm__("x2") = third;
	register uint64_t in_x3 __asm__("x3") = fourth;
	register uint64_t in_x4 __asm__("x4") = fifth;
	__asm__ volatile("svc #0"
			 : "+r"(in_x0)
			 : "r"(in_x8), "r"(in_x1), "r"(in_x2), "r"(in_x3), "r"(in_x4)
			 : "memory");
	return in_x0 == 0;
#else
	(void)operation;
	(void)second;
	(void)third;
	(void)fourth;
	(void)fifth;
	return 0;
#endif
}

/* Opens this thread's region: what it does from here to percolog_roi_end counts. */
static inline int percolog_roi_begin(void)
{
	return percolog_roi_mark(PERCOLOG_ROI_BEGIN, 0, 0, 0, 0);
}

/* Closes this thread's region, in which it has made that many operations. */
static inline int percolog_roi_end(uint64_t operations)
{
	return percolog_roi_mark(PERCOLOG_ROI_END, operations, 0, 0, 0);
}

/* Gives memory a name in reports, until another label covers it. The memory is not read; the name ends with a zero byte. */
static inline int percolog_roi_label(const volatile void *address, size_t length, const char *name)
{
	return percolog_roi_mark(PERCOLOG_ROI_LABEL, (uint64_t)(uintptr_t)address, (uint64_t)length,
				 (uint64_t)(uintptr_t)name, (uint64_t)strlen(name));
}

/* Puts this thread on that core of the simulated machine, counted from 0, and keeps it there. */
static inline int percolog_roi_core(size_t number)
{
	return percolog_roi_mark(PERCOLOG_ROI_CORE, (uint64_t)number, 0, 0, 0);
}

#ifdef __cplusplus
}
#endif

#endif
