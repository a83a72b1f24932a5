/* The limit: the same as reframe.py, one write a read, in C. usage: reframe AGENT... */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 262144

static void write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n <= 0) _exit(1);
        data += n;
        size -= (size_t)n;
    }
}

int main(int argc, char **argv) {
    int in[2], out[2];
    if (argc < 2 || pipe(in) || pipe(out)) return 1;
    if (!fork()) {
        dup2(in[0], 0); dup2(out[1], 1);
        close(in[0]); close(in[1]); close(out[0]); close(out[1]);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    close(in[0]); close(out[1]);
    size_t held = 0, room = BLOCK * 4;
    char *buffer = malloc(room), *frames = NULL, block[65536];
    size_t frames_room = 0;
    struct pollfd polls[2] = {{0, POLLIN, 0}, {out[0], POLLIN, 0}};
    for (;;) {
        if (poll(polls, 2, -1) < 0) return 1;
        if (polls[0].revents) {
            ssize_t n = read(0, block, sizeof block);
            if (n <= 0) return 0;
            write_all(in[1], block, (size_t)n);
        }
        if (!polls[1].revents) continue;
        if (room - held < BLOCK) buffer = realloc(buffer, room *= 2);
        ssize_t n = read(out[0], buffer + held, BLOCK);
        if (n <= 0) return 0;
        held += (size_t)n;
        size_t lines = 0, used = 0, start = 0;
        char *end;
        for (char *p = buffer; (p = memchr(p, '\n', held - (size_t)(p - buffer))); p++) lines++;
        if (frames_room < held + lines * 32) frames = realloc(frames, frames_room = held + lines * 32);
        while ((end = memchr(buffer + start, '\n', held - start))) {
            size_t size = (size_t)(end - buffer) - start;
            used += (size_t)sprintf(frames + used, "Content-Length: %zu\r\n\r\n", size);
            memcpy(frames + used, buffer + start, size);
            used += size;
            start += size + 1;
        }
        write_all(1, frames, used);
        memmove(buffer, buffer + start, held - start);
        held -= start;
    }
}
