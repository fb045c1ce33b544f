/* A stand-in for the driver's management library on two GPUs. A function hangs for as long as a file of its name lies in
   the folder that HANG_AT names. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { uint32_t field, scope; int64_t at, latency; uint32_t type, result; uint64_t value; } Field;
typedef struct { uint32_t id, result; double value; void *info[3]; } Metric;
typedef struct { uint32_t version, count; void *first, *last; Metric metrics[]; } Metrics;

static int hang(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HANG_AT"), name);
    while (access(path, F_OK) == 0) usleep(10000);
    return 0;
}

#define HANG hang(__func__)

int nvmlInitWithFlags(uint32_t flags) { return HANG; }
int nvmlShutdown(void) { return HANG; }
const char *nvmlErrorString(int error) { return "an error of the stand-in"; }
int nvmlDeviceGetCount_v2(uint32_t *count) { *count = 2; return HANG; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, void **device) { *device = (void *)(uintptr_t)(index + 1); return HANG; }
int nvmlDeviceGetMinorNumber(void *device, uint32_t *minor) { *minor = (uintptr_t)device - 1; return HANG; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *count, void *found) { *count = 0; return HANG; }
int nvmlDeviceGetMemoryInfo(void *device, uint64_t *memory) { memory[0] = 80; memory[1] = 77; memory[2] = 3; return HANG; }
int nvmlDeviceGetUtilizationRates(void *device, uint32_t *rates) { rates[0] = rates[1] = 5; return HANG; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *reasons) { *reasons = 0; return HANG; }
int nvmlDeviceGetClockInfo(void *device, int kind, uint32_t *mhz) { *mhz = 1000; return HANG; }
int nvmlDeviceGetPowerUsage(void *device, uint32_t *milliwatts) { *milliwatts = 100000; return HANG; }
int nvmlDeviceGetTemperature(void *device, int sensor, uint32_t *celsius) { *celsius = 40; return HANG; }
int nvmlDeviceGetFieldValues(void *device, int count, Field *fields) {
    for (int i = 0; i < count; i++) fields[i].result = 0, fields[i].value = 7;
    return HANG;
}
int nvmlGpmQueryDeviceSupport(void *device, uint32_t *support) { support[1] = 1; return HANG; }
int nvmlGpmSampleAlloc(void **sample) { *sample = malloc(1); return HANG; }
int nvmlGpmSampleGet(void *device, void *sample) { return HANG; }
int nvmlGpmSampleFree(void *sample) { free(sample); return HANG; }
int nvmlGpmMetricsGet(Metrics *asked) {
    for (uint32_t i = 0; i < asked->count; i++) asked->metrics[i].result = 0, asked->metrics[i].value = 1;
    return HANG;
}
int nvmlEventSetCreate(void **events) { *events = malloc(1); return HANG; }
int nvmlDeviceRegisterEvents(void *device, uint64_t kinds, void *events) { return HANG; }
int nvmlEventSetWait_v2(void *events, void *event, uint32_t milliseconds) { HANG; return 10; /* nothing came */ }
int nvmlEventSetFree(void *events) { free(events); return HANG; }
