// Functions that later releases of glibc export under a newer version, bound to their first one.
// A job's container is often older than the host that the plugin was built on: with these
// definitions, and the C++ run-time linked in, glibc 2.28 suffices (tests/packaging/symbols.py).
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define LYRE_GLIBC_FIRST "GLIBC_2.2.5"
#define LYRE_GLIBC_2_3_3 "GLIBC_2.3.3"
#define LYRE_GLIBC_2_7 "GLIBC_2.7"
#define LYRE_GLIBC_2_12 "GLIBC_2.12"
#define LYRE_STAT_VERSION 1  // of struct stat: the first argument of __fxstat64()
#elif defined(__aarch64__)
#define LYRE_GLIBC_FIRST "GLIBC_2.17"
#define LYRE_GLIBC_2_3_3 LYRE_GLIBC_FIRST
#define LYRE_GLIBC_2_7 LYRE_GLIBC_FIRST
#define LYRE_GLIBC_2_12 LYRE_GLIBC_FIRST
#define LYRE_STAT_VERSION 0
#endif

#define LYRE_HIDDEN [[gnu::visibility("hidden")]]

extern "C" {

__asm__(".symver first_fxstat, __fxstat64@" LYRE_GLIBC_FIRST);
int first_fxstat(int, int, struct stat64*);
LYRE_HIDDEN int fstat64(int fd, struct stat64* facts) noexcept {
  return first_fxstat(LYRE_STAT_VERSION, fd, facts);
}

__asm__(".symver first_dlopen, dlopen@" LYRE_GLIBC_FIRST);
void* first_dlopen(const char*, int);
LYRE_HIDDEN void* dlopen(const char* name, int mode) noexcept { return first_dlopen(name, mode); }

__asm__(".symver first_dlsym, dlsym@" LYRE_GLIBC_FIRST);
void* first_dlsym(void*, const char*);
LYRE_HIDDEN void* dlsym(void* library, const char* name) noexcept {
  return first_dlsym(library, name);
}

__asm__(".symver first_dlerror, dlerror@" LYRE_GLIBC_FIRST);
char* first_dlerror();
LYRE_HIDDEN char* dlerror() noexcept { return first_dlerror(); }

__asm__(".symver first_create, pthread_create@" LYRE_GLIBC_FIRST);
int first_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
LYRE_HIDDEN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                               void* (*start)(void*), void* argument) noexcept {
  return first_create(thread, attributes, start, argument);
}

__asm__(".symver first_join, pthread_join@" LYRE_GLIBC_FIRST);
int first_join(pthread_t, void**);
LYRE_HIDDEN int pthread_join(pthread_t thread, void** result) { return first_join(thread, result); }

__asm__(".symver first_trylock, pthread_mutex_trylock@" LYRE_GLIBC_FIRST);
int first_trylock(pthread_mutex_t*);
LYRE_HIDDEN int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return first_trylock(mutex);
}

__asm__(".symver first_sigmask, pthread_sigmask@" LYRE_GLIBC_FIRST);
int first_sigmask(int, const sigset_t*, sigset_t*);
LYRE_HIDDEN int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  return first_sigmask(how, set, before);
}

__asm__(".symver first_setclock, pthread_condattr_setclock@" LYRE_GLIBC_2_3_3);
int first_setclock(pthread_condattr_t*, clockid_t);
LYRE_HIDDEN int pthread_condattr_setclock(pthread_condattr_t* attributes,
                                          clockid_t clock) noexcept {
  return first_setclock(attributes, clock);
}

__asm__(".symver first_setname, pthread_setname_np@" LYRE_GLIBC_2_12);
int first_setname(pthread_t, const char*);
LYRE_HIDDEN int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  return first_setname(thread, name);
}

// The headers of glibc 2.38 and later replace strtol() and its like by these names, whose functions
// also take C23's binary numbers. The first ones do not. With older headers nothing calls them.
__asm__(".symver first_strtol, strtol@" LYRE_GLIBC_FIRST);
long first_strtol(const char*, char**, int);
LYRE_HIDDEN long __isoc23_strtol(const char* text, char** end, int base) noexcept {
  return first_strtol(text, end, base);
}

__asm__(".symver first_strtoul, strtoul@" LYRE_GLIBC_FIRST);
unsigned long first_strtoul(const char*, char**, int);
LYRE_HIDDEN unsigned long __isoc23_strtoul(const char* text, char** end, int base) noexcept {
  return first_strtoul(text, end, base);
}

__asm__(".symver first_strtoll, strtoll@" LYRE_GLIBC_FIRST);
long long first_strtoll(const char*, char**, int);
LYRE_HIDDEN long long __isoc23_strtoll(const char* text, char** end, int base) noexcept {
  return first_strtoll(text, end, base);
}

__asm__(".symver first_strtoull, strtoull@" LYRE_GLIBC_FIRST);
unsigned long long first_strtoull(const char*, char**, int);
LYRE_HIDDEN unsigned long long __isoc23_strtoull(const char* text, char** end, int base) noexcept {
  return first_strtoull(text, end, base);
}

__asm__(".symver first_vsscanf, __isoc99_vsscanf@" LYRE_GLIBC_2_7);
int first_vsscanf(const char*, const char*, va_list);
LYRE_HIDDEN int __isoc23_sscanf(const char* text, const char* format, ...) noexcept {
  va_list places;
  va_start(places, format);
  const int count = first_vsscanf(text, format, places);
  va_end(places);
  return count;
}

// Since 2.32 glibc says here whether a process has one thread, so that libstdc++ may count
// references without atomic operations. "No" is always right.
LYRE_HIDDEN extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}
