#pragma once

#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// Makes DPDK open the NIC, with the device arguments that its driver needs. One that the start of
/// DPDK has opened stays as it is.
/// Thread: the control thread. Fails: one line that says what keeps the NIC from being opened.
Status open_nic(DeviceArgs& args);

}  // namespace lyre::io::dpdk
