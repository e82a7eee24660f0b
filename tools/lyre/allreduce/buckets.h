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

/// The data of one all-reduce.
struct Bucket {
  std::string model;
  uint32_t index = 0;  // within the model
  uint32_t tensors = 0;
  uint64_t elements = 0;  // float32

  uint64_t bytes() const { return elements * sizeof(float); }
};

inline constexpr uint64_t kFirstBucketBytes = uint64_t{1} << 20;
inline constexpr uint64_t kBucketBytes = uint64_t{25} << 20;

/// Divides gradients into buckets as PyTorch's DistributedDataParallel does when it knows their
/// order: from the last registered parameter to the first. A bucket ends with the tensor that
/// reaches its size: 1 MiB for the first, so that communication starts early, 25 MiB for the
/// others. A tensor is never split.
std::vector<Bucket> cut_buckets(const std::string& model, const std::vector<Parameter>& parameters,
                                uint64_t first_bucket_bytes = kFirstBucketBytes,
                                uint64_t bucket_bytes = kBucketBytes);

/// Returns the parameters of `model` in the data file, in order of registration.
/// Fails: throws Failure with the file, or UsageError with the models that it has.
std::vector<Parameter> load_model(const std::string& path, const std::string& model);

/// Searches the data file in $LYRE_DATA_DIR, in the executable's build folder, and where it is
/// installed. Fails: throws Failure with these places.
std::string find_model_file();

}  // namespace lyre::allreduce
