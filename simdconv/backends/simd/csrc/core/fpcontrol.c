/* The floating-point control word of the calling thread. */
#include "internal.h"

#if SC_X86
unsigned long sc_fp_save(void) { return __builtin_ia32_stmxcsr(); }
void sc_fp_restore(unsigned long control) { __builtin_ia32_ldmxcsr((unsigned)control); }
/* FTZ: bit 15, results; DAZ: bit 6, operands */
void sc_fp_flush_denormals(void) { sc_fp_restore(sc_fp_save() | 0x8040ul); }
#elif SC_ARM
unsigned long sc_fp_save(void) {
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
void sc_fp_restore(unsigned long control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
/* FZ: bit 24 */
void sc_fp_flush_denormals(void) { sc_fp_restore(sc_fp_save() | 1ul << 24); }
#else
unsigned long sc_fp_save(void) { return 0; }
void sc_fp_restore(unsigned long control) { (void)control; }
void sc_fp_flush_denormals(void) {}
#endif
