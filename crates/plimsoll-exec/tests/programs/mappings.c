/* Calls on the address space. Prints a line for each, which must be the same with and without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define K (1ul << 10)
#define M (1ul << 20)
#define RW (PROT_READ | PROT_WRITE)
#define AN (MAP_PRIVATE | MAP_ANONYMOUS)

static sigjmp_buf back;

static void on_fault(int signal) { siglongjmp(back, signal); }

/* The byte at an address, or the negative of the signal that the read raises. */
static int reads(void *p) {
    int signal = sigsetjmp(back, 1);
    return signal ? -signal : *(volatile unsigned char *)p;
}

/* 77, or the negative of the signal that a write raises. */
static int writes(void *p) {
    int signal = sigsetjmp(back, 1);
    if (signal) return -signal;
    *(volatile unsigned char *)p = 77;
    return 77;
}

#define T(e)                                                                        \
    do {                                                                            \
        errno = 0;                                                                  \
        long r = (long)(e);                                                         \
        printf("%d %s = %ld (%s)\n", __LINE__, #e, r, r == -1 ? strerror(errno) : ""); \
    } while (0)

int main(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    char *p = mmap(0, 1 * M, RW, AN, -1, 0);
    fprintf(stderr, "%p\n", (void *)p);
    T(p==MAP_FAILED);
    T(reads(p));
    memset(p,5,1*M);
    T(reads(p+M-1));
    T(munmap(p+64*K,64*K));
    T(reads(p+64*K));
    T(reads(p+64*K-1));
    T(reads(p+128*K));
    T(munmap(p+64*K,64*K));

    /* Fixed over the hole. */
    T(mmap(p+64*K,64*K,RW,AN|MAP_FIXED,-1,0)==p+64*K);
    T(reads(p+64*K));
    T(writes(p+64*K));
    T(mmap(p+64*K,64*K,RW,AN|MAP_FIXED_NOREPLACE,-1,0)==MAP_FAILED);

    /* Fixed over used pages: zero. */
    T(mmap(p,128*K,PROT_READ,AN|MAP_FIXED,-1,0)==p);
    T(reads(p));
    T(writes(p));
    T(reads(p+128*K));
    T(mprotect(p,128*K,RW));
    T(writes(p));
    T(mprotect(p,4*K,PROT_NONE));
    T(reads(p));
    T(mprotect(p,4*K,RW));
    T(reads(p));
    T(madvise(p,8*K,MADV_DONTNEED));
    T(reads(p));
    T(madvise(p+1,8*K,MADV_DONTNEED));
    T(madvise(p,8*K,9999));
    T(madvise(p,8*K,MADV_REMOVE));
    T(madvise(p,1*M,MADV_HUGEPAGE));
    T(madvise(p,1*M,MADV_NOHUGEPAGE));
    T(madvise(p,M,MADV_SEQUENTIAL));
    T(mprotect(p+1,4*K,RW));
    T(munmap(p+1,4*K));
    T(munmap(p,0));

    /* Shrink, grow. */
    memset(p,9,1*M);
    char*q=mremap(p,1*M,512*K,0);
    T(q==p);
    T(reads(p+512*K));
    T(reads(p+512*K-1));
    q=mremap(p,512*K,8*M,MREMAP_MAYMOVE);
    T(q==MAP_FAILED);
    T(reads(q));
    T(reads(q+512*K-1));
    T(reads(q+512*K));
    T(reads(q+8*M-1));
    T(writes(q+8*M-1));
    T(mremap(q,8*M,0,MREMAP_MAYMOVE)==MAP_FAILED);
    T(mremap(q+1,8*M,8*M,MREMAP_MAYMOVE)==MAP_FAILED);

    /* Fixed move. */
    char*z=mmap(0,16*M,PROT_NONE,AN|MAP_NORESERVE,-1,0);
    T(reads(z));
    char*w=mremap(q,8*M,8*M,MREMAP_MAYMOVE|MREMAP_FIXED,z+4*M);
    T(w==z+4*M);
    T(reads(w));
    T(reads(w+512*K-1));
    T(reads(w+512*K));
    T(reads(q));
    T(reads(z));
    T(reads(w+8*M));
    T(mremap(w,8*M,8*M,MREMAP_MAYMOVE|MREMAP_FIXED,w+4*M)==MAP_FAILED);

    /* Files in the middle. */
    char name[] = "/tmp/plimsoll-exec-XXXXXX";
    int fd=mkstemp(name);
    unlink(name);
    char buf[8192];
    memset(buf,'f',8192);
    T(write(fd,buf,8192));
    T(mmap(w+M,8*K,PROT_READ,MAP_PRIVATE|MAP_FIXED,fd,0)==w+M);
    T(reads(w+M));
    T(reads(w+M+8*K));
    T(writes(w+M));
    char*sh=mmap(w+2*M,8*K,RW,MAP_SHARED|MAP_FIXED,fd,0);
    T(sh==w+2*M);
    sh[1]='g';
    T(pread(fd,buf,2,0));
    T(buf[1]);
    T(munmap(w+M,4*K));
    T(reads(w+M));
    T(reads(w+M+4*K));
    T(mmap(w+M,4*K,RW,AN|MAP_FIXED,-1,0)==w+M);
    T(reads(w+M));
    T(writes(w+M));
    T(munmap(z,16*M));
    T(reads(w));
    T(reads(w+2*M));

    /* Shared anonymous. */
    char*s=mmap(0,1*M,RW,MAP_SHARED|MAP_ANONYMOUS,-1,0);
    T(s==MAP_FAILED);
    s[5]=5;
    T(munmap(s,1*M));

    /* Populate, lock, mincore. */
    p=mmap(0,256*K,RW,AN|MAP_POPULATE,-1,0);
    T(p==MAP_FAILED);
    unsigned char v[64];
    memset(v,0,64);
    T(mincore(p,256*K,v));
    T(v[0]&1);
    T(v[63]&1);
    T(mlock(p,64*K));
    T(munlock(p,64*K));
    T(msync(p,64*K,MS_SYNC));
    T(mincore(p+256*K*1000,4*K,v)==0&&0);

    /* Sys calls on memory. */
    int fds[2];
    T(pipe(fds));
    memset(p,'x',256*K);
    T(write(fds[1],p,60000));
    memset(p,0,65536);
    T(read(fds[0],p,60000));
    T(reads(p+59999));
    T(reads(p+60000));
    T(mprotect(p,4*K,PROT_NONE));
    T(write(fds[1],p,10));
    T(mprotect(p,4*K,RW));
    T(munmap(p,256*K));
    T(write(fds[1],p,10));

    /* Hints. */
    p=mmap(0,1*M,RW,AN,-1,0);
    munmap(p,1*M);
    q=mmap(p,1*M,RW,AN,-1,0);
    T(q==p);
    T(munmap(q,M));

    /* Executable. */
    p=mmap(0,64*K,RW|PROT_EXEC,AN,-1,0);
    T(p==MAP_FAILED);
    p[0]=0xc3;
    ((void(*)(void))p)();
    T(munmap(p,64*K));
    p=mmap(0,64*K,RW,AN,-1,0);
    p[0]=0xc3;
    T(mprotect(p,64*K,PROT_READ|PROT_EXEC));
    ((void(*)(void))p)();
    T(munmap(p,64*K));

    /* Sbrk. */
    char*b=sbrk(0);
    T(b==(void*)-1);
    T(sbrk(100000)==b);
    memset(b,3,100000);
    T(reads(b+99999));
    T((char*)sbrk(0)-b);
    T(brk(b));
    T((char*)sbrk(0)==b);
    T(sbrk(100000)==b);
    T(reads(b));

    /* Many small ones. */
    for(int i=0;i<2000;i++){ char*m=mmap(0,40*K,RW,AN,-1,0); if(m==MAP_FAILED) {puts("failed"); break;} m[0]=i; m[40*K-1]=i; if(i%3) munmap(m,40*K); }

    /* Big sparse. */
    p=mmap(0,32ul<<30,RW,AN|MAP_NORESERVE,-1,0);
    T(p==MAP_FAILED);
    for(int i=0;i<32;i++) p[((long)i<<30)]=i;
    int sum=0;
    for(int i=0;i<32;i++) sum+=p[((long)i<<30)];
    T(sum);
    T(munmap(p,32ul<<30));

    /* Libc blocks. */
    char*line=0;
    size_t n=0;
    FILE*f=fopen("/proc/self/status","r");
    T(getline(&line,&n,f)>0);
    line=realloc(line,200000);
    T(line!=0);
    line=realloc(line,10);
    free(line);
    fclose(f);
    void*al;
    T(posix_memalign(&al,4096,100));
    T((unsigned long)al%4096);
    free(al);
    T(posix_memalign(&al,3,100));
    al=strdup("abc");
    al=realloc(al,100);
    T(strcmp(al,"abc"));
    free(al);
    return 0;
}
