// The one place that knows the JSON library.
#include <cmath>
#include <nlohmann/json.hpp>

#include "render.h"

namespace kdart::probe {
namespace {

using Json = nlohmann::ordered_json;

Json document(std::string_view command) {
  Json json;
  json["schema"] = "kdart.probe/1";
  json["command"] = command;
  return json;
}

Json finite_or_null(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json problem(std::string_view code, std::string_view message) {
  return {{"code", code}, {"message", message}};
}

Json dimensions(const Dim3& d) {
  return Json::array({d.x, d.y, d.z});
}

Json image(const std::optional<ImageName>& name) {
  return name ? Json{{"file", name->file}, {"target", name->target}} : Json(nullptr);
}

Json rejected(const std::vector<RejectedImage>& images) {
  Json json = Json::array();
  for (const RejectedImage& i : images) {
    json.push_back({{"file", i.file}, {"target", i.target}, {"reason", i.reason}});
  }
  return json;
}

Json device(const DeviceInfo& info) {
  const DeviceLimits& limits = info.limits;
  return {{"id", info.id},
          {"name", info.name},
          {"vendor", info.vendor},
          {"type", to_string(info.type)},
          {"uuid", info.uuid},
          {"pci_address", info.pci_address},
          {"target", info.target},
          {"driver_version", info.driver_version},
          {"driver_library", info.driver_library},
          {"total_memory", info.total_memory},
          {"limits",
           {{"shared_memory_per_block", limits.shared_memory_per_block},
            {"threads_per_block", limits.threads_per_block},
            {"block", dimensions(limits.block)},
            {"grid", dimensions(limits.grid)},
            {"allocation", limits.allocation},
            {"subgroup_min", limits.subgroup_min},
            {"subgroup_max", limits.subgroup_max},
            {"max_tokens_per_launch", limits.max_tokens_per_launch}}},
          {"features", info.features},
          {"quirks", info.quirks},
          {"unusable", info.unusable},
          {"note", info.note}};
}

Json backends(const ListResult& result) {
  Json json = Json::array();
  for (const BackendStatus& status : result.backends) {
    Json devices = Json::array();
    for (const DeviceInfo& info : status.devices) devices.push_back(device(info));
    json.push_back({{"backend", status.backend},
                    {"driver_library", status.driver_library},
                    {"devices", devices},
                    {"error", status.error ? problem(to_string(*status.error), status.message) : Json(nullptr)}});
  }
  return json;
}

Json kernel_set(const std::variant<SetChoice, Problem>& kernels) {
  if (const auto* none = std::get_if<Problem>(&kernels)) {
    return {{"name", nullptr}, {"error", problem(none->code, none->message)}};
  }
  const auto& choice = std::get<SetChoice>(kernels);
  return {{"name", choice.set.name},
          {"version", choice.set.version},
          {"origin", choice.set.origin},
          {"image", image(choice.image)},
          {"rejected", rejected(choice.rejected)}};
}

Json memory(const MemoryInfo& info) {
  return {{"free", info.free}, {"total", info.total}, {"live", info.live}};
}

Json row(const ResultRow& r) {
  return {{"case", r.case_name},
          {"mode", to_string(r.mode)},
          {"tokens", r.tokens},
          {"route", r.route == KdaRoute::reference ? "reference" : "auto"},
          {"out_rel_l2", finite_or_null(r.figures.out_rel_l2)},
          {"recurrent_rel_l2", finite_or_null(r.figures.recurrent_rel_l2)},
          {"conv_max_excess", finite_or_null(r.figures.conv_max_excess)},
          {"finite", r.figures.finite},
          {"bits_equal_decode", or_null(r.bits_equal_decode)},
          {"bits_equal_recurrent", or_null(r.bits_equal_recurrent)},
          {"bounds", {{"out", r.bounds.out}, {"recurrent", r.bounds.recurrent}}},
          {"pass", r.pass},
          {"seconds_per_token", r.seconds_per_token},
          {"out_sha256", r.out_sha256},
          {"state_sha256", r.state_sha256}};
}

Json rows(const std::vector<ResultRow>& results) {
  Json json = Json::array();
  for (const ResultRow& r : results) json.push_back(row(r));
  return json;
}

Json to_document(const TextRequest& result) {
  Json json = document(result.key);
  json[result.key] = result.text;
  return json;
}

Json to_document(const ListResult& result) {
  Json json = document("list");
  json["backends"] = backends(result);
  return json;
}

Json to_document(const InfoResult& result) {
  Json json = document("info");
  json["device"] = device(result.device);
  json["memory"] = memory(result.memory);
  json["kernel_set"] = kernel_set(result.kernels);
  return json;
}

Json to_document(const KernelsResult& result) {
  Json json = document("kernels");
  json["set"] = result.set.name;
  json["version"] = result.set.version;
  json["backend"] = result.set.backend;
  json["origin"] = result.set.origin;
  json["target"] = result.target;
  json["image"] = image(result.image);
  json["rejected"] = rejected(result.rejected);
  json["kernels"] = Json::array();
  for (const KernelRow& k : result.kernels) {
    json["kernels"].push_back({{"name", k.name},
                               {"registers", or_null(k.registers)},
                               {"shared_bytes", k.shared_bytes},
                               {"argument_bytes", k.argument_bytes}});
  }
  json["missing"] = result.missing;
  return json;
}

Json prefill_gemm(const KdaPrefillGemm& use) {
  return {{"service", use.service}, {"own", use.own}};
}

Json to_document(const LayerResult& result) {
  Json json = document("layer");
  json["device"] = result.device;
  json["model"] = result.model;
  json["layer"] = or_null(result.layer);
  json["kernel_set"] = {{"name", result.set.name}, {"version", result.set.version}};
  json["recurrent_kernel"] = result.recurrent_kernel;
  json["prefill_gemm"] = prefill_gemm(result.prefill_gemm);
  json["sample_rows"] = or_null(result.sample_rows);
  json["truth_seconds"] = or_null(result.truth_seconds);
  json["results"] = rows(result.rows);
  json["pass"] = result.pass();
  return json;
}

Json self_check(const std::variant<LayerResult, Problem>& check) {
  if (const auto* failed = std::get_if<Problem>(&check)) {
    return {{"error", problem(failed->code, failed->message)}, {"pass", false}};
  }
  const auto& result = std::get<LayerResult>(check);
  return {{"recurrent_kernel", result.recurrent_kernel}, {"results", rows(result.rows)}, {"pass", result.pass()}};
}

Json report_device(const ReportDevice& item) {
  Json json;
  json["id"] = item.id;
  if (const auto* failed = std::get_if<Problem>(&item.info)) {
    json["error"] = problem(failed->code, failed->message);
  } else {
    const auto& info = std::get<InfoResult>(item.info);
    json["info"] = device(info.device);
    json["memory"] = memory(info.memory);
    json["kernel_set"] = kernel_set(info.kernels);
  }
  json["self_check"] = self_check(item.self_check);
  return json;
}

Json report_set(const ReportSet& set) {
  Json json;
  json["backend"] = set.backend;
  json["origin"] = set.origin;
  if (const auto* failed = std::get_if<Problem>(&set.manifest)) {
    json["error"] = problem(failed->code, failed->message);
    return json;
  }
  const auto& manifest = std::get<Manifest>(set.manifest);
  json["name"] = manifest.set;
  json["version"] = manifest.version;
  json["toolchain"] = manifest.toolchain;
  json["images"] = Json::array();
  for (const ManifestImage& i : manifest.images) {
    json["images"].push_back({{"file", i.file},
                              {"target", i.target},
                              {"format", to_string(i.format)},
                              {"bytes", i.bytes},
                              {"sha256", i.sha256}});
  }
  return json;
}

Json to_document(const ReportResult& result) {
  const SystemInfo& system = result.system;
  Json json = document("report");
  json["kdart"] = {{"version", system.kdart_version}, {"compiler", system.compiler}, {"build_type", system.build_type}};
  json["system"] = {{"name", system.system},         {"kernel", system.kernel}, {"architecture", system.architecture},
                    {"processor", system.processor}, {"cores", system.cores},   {"memory", system.memory}};
  json["backends"] = backends(result.backends);
  json["kernel_sets"] = Json::array();
  for (const ReportSet& set : result.sets) json["kernel_sets"].push_back(report_set(set));
  json["devices"] = Json::array();
  for (const ReportDevice& item : result.devices) json["devices"].push_back(report_device(item));
  json["pass"] = result.pass();
  return json;
}

Json median_of(const std::vector<double>& samples) {
  return finite_or_null(median(samples));
}

Json bench_error(const std::optional<BenchError>& error) {
  if (!error) return nullptr;
  Json json = problem(error->code, error->message);
  json["exit"] = static_cast<std::uint32_t>(error->exit);
  return json;
}

// What was measured of a row; null throughout where it was not.
Json bench_row(const BenchRow& r) {
  const double us = r.median_us();
  Json json{{"geometry", r.geometry},
            {"mode", to_string(r.mode)},
            {"tokens", r.tokens},
            {"batch", r.batch},
            {"graph", r.graph},
            {"call", nullptr},
            {"route", nullptr},
            {"recurrent_kernel", nullptr},
            {"prefill_gemm", nullptr},
            {"median_us", finite_or_null(us)},
            {"min_us", finite_or_null(smallest(r.timing.device_us))},
            {"us_per_token", finite_or_null(us / r.tokens)},
            {"p90_over_median", finite_or_null(r.deviation())},
            {"wall_us", median_of(r.timing.wall_us)},
            {"submit_us", median_of(r.timing.submit_us)},
            {"samples", r.timing.device_us.size()},
            {"calls_per_sample", r.timing.calls_per_sample},
            {"bytes",
             {{"weights", r.traffic.weights},
              {"state", r.traffic.state},
              {"activations", r.traffic.activations},
              {"total", r.traffic.total()}}},
            {"flops", r.flops},
            {"floor_us", finite_or_null(r.floor_us)},
            {"over_floor", finite_or_null(us / r.floor_us)},
            {"state_bytes_per_second", finite_or_null(r.state_bytes_per_second())},
            {"rotation",
             {{"weight_sets", r.rotation.weight_sets},
              {"weight_set_bytes", r.rotation.weight_set_bytes},
              {"input_sets", r.rotation.input_sets},
              {"input_set_bytes", r.rotation.input_set_bytes}}},
            {"memory", {{"needed", r.memory.needed}, {"free", r.memory.free}}},
            {"samples_us", r.timing.device_us},
            {"samples_wall_us", r.timing.wall_us},
            {"error", bench_error(r.error)}};
  if (r.route) {
    json["route"] = *r.route == KdaRoute::reference ? "reference" : "auto";
    json["recurrent_kernel"] = r.recurrent_kernel;
    if (r.prefill_gemm) json["prefill_gemm"] = prefill_gemm(*r.prefill_gemm);
    json["call"] = r.call;
  }
  return json;
}

Json to_document(const BenchResult& result) {
  const CopyBandwidth& copy = result.copy;
  Json json = document(result.of == BenchOf::layer ? "bench layer" : "bench core");
  json["device"] = device(result.device);
  json["kernel_set"] = kernel_set(result.kernels);
  json["seed"] = result.seed;
  json["repeats"] = or_null(result.repeats);
  json["copy_bandwidth"] = {{"bytes_per_second", finite_or_null(copy.bytes_per_second())},
                            {"buffer_bytes", copy.buffer_bytes},
                            {"median_us", finite_or_null(copy.median_us())},
                            {"min_us", finite_or_null(smallest(copy.timing.device_us))},
                            {"samples", copy.timing.device_us.size()},
                            {"calls_per_sample", copy.timing.calls_per_sample},
                            {"samples_us", copy.timing.device_us}};
  json["results"] = Json::array();
  for (const BenchRow& r : result.rows) json["results"].push_back(bench_row(r));
  json["pass"] = result.exit() == ExitCode::ok;
  return json;
}

Json launch_row(const LaunchRow& r) {
  return {{"context", r.context ? Json(to_string(*r.context)) : Json(nullptr)},
          {"kdart_us", median_of(r.kdart_us)},
          {"bare_us", median_of(r.bare_us)},
          {"ratio", finite_or_null(r.ratio())},
          {"samples", r.kdart_us.size()},
          {"kdart_samples_us", r.kdart_us},
          {"bare_samples_us", r.bare_us},
          {"bare_missing", r.bare_missing.empty() ? Json(nullptr) : Json(r.bare_missing)},
          {"error", bench_error(r.error)}};
}

Json to_document(const LaunchBenchResult& result) {
  Json json = document("bench launch");
  json["device"] = device(result.device);
  json["kernel_set"] = kernel_set(result.kernels);
  json["repeats"] = or_null(result.repeats);
  json["kernel"] = "fill";
  json["launches_per_sample"] = result.launches_per_sample;
  json["results"] = Json::array();
  for (const LaunchRow& r : result.rows) json["results"].push_back(launch_row(r));
  const GraphLaunchRow& graph = result.graph;
  json["graph"] = {{"kernels", graph.kernels},
                   {"us_per_kernel", finite_or_null(graph.us_per_kernel())},
                   {"samples", graph.timing.device_us.size()},
                   {"graphs_per_sample", graph.timing.calls_per_sample},
                   {"samples_us", graph.timing.device_us},
                   {"error", bench_error(graph.error)}};
  json["pass"] = result.exit() == ExitCode::ok;
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string to_json(const Result& result) {
  return dump(std::visit([](const auto& r) { return to_document(r); }, result));
}

std::string to_json(const Failure& failure, const std::optional<std::string>& command) {
  Json json = document("");
  json["command"] = or_null(command);
  json["error"] = {
      {"code", failure.code()}, {"message", failure.what()}, {"exit", static_cast<std::uint32_t>(failure.exit())}};
  return dump(json);
}

}  // namespace kdart::probe
