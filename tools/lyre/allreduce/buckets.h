#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::allreduce {

/// A trainable tensor of a model.
struct Parameter {
  std::string name;
  uint64_t elements = 0;
};

/// What one all-reduce carries.
struct Bucket {
  std::string model;
  uint32_t index = 0;  // within the model
  uint32_t tensors = 0;
  uint64_t elements = 0;  // float32

  uint64_t bytes() const { return elements * sizeof(float); }
};

inline constexpr uint64_t kFirstBucketBytes = uint64_t{1} << 20;
inline constexpr uint64_t kBucketBytes = uint64_t{25} << 20;

/// Cuts gradients as PyTorch's DistributedDataParallel does once it knows their order: from the
/// last registered parameter to the first; a bucket is closed by the tensor that fills it, the
/// first at 1 MiB so that communication starts early, the others at 25 MiB. A tensor is never
/// split.
std::vector<Bucket> cut_buckets(const std::string& model, const std::vector<Parameter>& parameters,
                                uint64_t first_bucket_bytes = kFirstBucketBytes,
                                uint64_t bucket_bytes = kBucketBytes);

/// The registration-order parameters of `model` in the data file.
/// Fails: throws Failure naming the file, or the models it has.
std::vector<Parameter> load_model(const std::string& path, const std::string& model);

/// Where the data file is: $LYRE_DATA_DIR, beside the executable's build, or the installed place.
/// Fails: throws Failure naming the places looked at.
std::string find_model_file();

}  // namespace lyre::allreduce
