// The one place that knows the command-line library.
#include "cli.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "core/runtime/format.h"
#include "exit_codes.h"
#include "kdart/registry.h"
#include "kdart/version.h"

namespace kdart::probe {
namespace {

constexpr std::array<std::string_view, 6> verbs{"list", "info", "kernels", "layer", "report", "bench"};
constexpr std::array<std::string_view, 3> bench_verbs{"layer", "core", "launch"};

constexpr std::uint32_t most_repeats = 100000;
constexpr std::uint32_t most_batch = 65535;

[[noreturn]] void usage(const std::string& message) {
  throw Failure("usage", message, ExitCode::usage);
}

// Every flag's value as it is written; taken apart after parsing.
struct Raw {
  std::string format = "text", output, kernel_set;
  std::string device, set, target, model, geometry, layer, cases, mode = "all", route = "auto", gemm = "auto", tokens,
                                                                  seed, sample_rows;
  std::vector<std::string> without;
  std::vector<std::string> geometries, token_lists, batch_lists;  // of bench
  std::string repeats;
  bool graph = false;
};

std::uint64_t number(std::string_view flag, const std::string& text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    usage(detail::format("{}: '{}' is not a whole number from {} to {}", flag, text, least, most));
  }
  return value;
}

std::uint32_t number32(std::string_view flag, const std::string& text, std::uint32_t least) {
  return static_cast<std::uint32_t>(number(flag, text, least, std::numeric_limits<std::uint32_t>::max()));
}

std::string device_id(const std::string& text) {
  try {
    return DeviceId::parse(text).to_string();
  } catch (const Error& error) {
    usage(error.what());
  }
}

std::vector<std::string> names(const std::vector<std::string>& lists) {
  std::vector<std::string> result;
  for (const std::string& list : lists) {
    for (std::size_t start = 0; start <= list.size();) {
      const std::size_t end = std::min(list.find(',', start), list.size());
      result.push_back(list.substr(start, end - start));
      start = end + 1;
    }
  }
  return result;
}

KernelSetDirectory directory(const std::string& text) {
  return text.empty() ? KernelSetDirectory() : KernelSetDirectory(text);
}

// Its choices stand in the flag's type name already.
CLI::Validator one_of(const std::vector<std::string_view>& choices) {
  const auto check = [choices](const std::string& value) {
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return std::string();
    return detail::format("'{}' is none of {}", value, fmt::join(choices, ", "));
  };
  return {check, ""};
}

const std::vector<std::string_view> formats{"text", "json"};
const std::vector<std::string_view> bench_formats{"text", "json", "csv", "md"};

void add_common(CLI::App& app, Raw& raw, const std::vector<std::string_view>& choices = formats) {
  app.add_option("--format", raw.format, "text, or json: one document on standard output and nothing else there")
      ->check(one_of(choices))
      ->type_name(detail::format("{}", fmt::join(choices, "|")))
      ->capture_default_str();
  app.add_option("--output", raw.output, "Write the result to FILE; standard output stays empty")->type_name("FILE");
  app.add_option("--kernel-set", raw.kernel_set,
                 "Use the kernel set in DIR (manifest.json and images), not the built-in")
      ->type_name("DIR");
}

void add_without(CLI::App& app, Raw& raw) {
  app.add_option("--without", raw.without, "Treat these kernels as absent from the set")
      ->type_name("KERNEL,..")
      ->allow_extra_args(false);
}

CLI::App& add_verb(CLI::App& app, const char* name, const char* description, const char* examples, Raw& raw) {
  CLI::App& verb = *app.add_subcommand(name, description);
  verb.footer(examples);
  add_common(verb, raw);
  return verb;
}

void add_list(CLI::App& app, Raw& raw) {
  add_verb(app, "list", "Backends of this build and their devices on this machine",
           "Examples:\n"
           "  kda-probe list\n"
           "  kda-probe list --format json --output devices.json",
           raw);
}

void add_info(CLI::App& app, Raw& raw) {
  CLI::App& verb = add_verb(app, "info", "One device: what it is, its limits, the kernel image it gets",
                            "Examples:\n"
                            "  kda-probe info\n"
                            "  kda-probe info cpu:0 --format json",
                            raw);
  verb.add_option("DEVICE", raw.device, "Device id such as cpu:0; cpu means cpu:0 [cpu:0]")->type_name("ID");
}

void add_kernels(CLI::App& app, Raw& raw) {
  CLI::App& verb = add_verb(app, "kernels", "Kernels that a device or target gets from the set, and what the set lacks",
                            "Examples:\n"
                            "  kda-probe kernels cpu:0\n"
                            "  kda-probe kernels --set cpu --target x86-64-v3\n"
                            "  kda-probe kernels --without recurrent_smem,dense_gemv_bf16_batchm",
                            raw);
  CLI::Option* device =
      verb.add_option("DEVICE", raw.device, "Device id such as cpu:0; cpu means cpu:0 [cpu:0]")->type_name("ID");
  CLI::Option* set = verb.add_option("--set", raw.set, "Look at the set for BACKEND; no device is needed");
  CLI::Option* target = verb.add_option("--target", raw.target, "With --set: choose as for this target");
  set->type_name("BACKEND")->needs(target)->excludes(device);
  target->type_name("T")->needs(set)->excludes(device);
  add_without(verb, raw);
}

void add_gemm(CLI::App& verb, Raw& raw) {
  verb.add_option("--gemm", raw.gemm, "Who does prefill's matrix products: the device's own service or the kernel set")
      ->type_name("auto|own|service")
      ->check(one_of({"auto", "own", "service"}))
      ->capture_default_str();
}

void add_layer(CLI::App& app, Raw& raw) {
  CLI::App& verb =
      add_verb(app, "layer", "Run a KDA layer and check it against float64 truth",
               "Examples:\n"
               "  kda-probe layer model --cases model/cases.safetensors --mode all --format json\n"
               "  kda-probe layer model --layer 3 --device cpu:0 --tokens 100 --seed 7\n"
               "  kda-probe layer --geometry glm-5.3-flash --seed 1 --mode decode --tokens 4\n"
               "  kda-probe layer --geometry glm-5.3-flash --seed 1 --mode prefill --tokens 64\n"
               "  kda-probe layer --geometry glm-5.3-flash --mode prefill --tokens 65536 --sample-rows 64\n"
               "  kda-probe layer model --without recurrent_smem,dense_gemv_bf16_batchm",
               raw);
  CLI::Option* model = verb.add_option("MODEL_DIR", raw.model, "Folder with config.json and safetensors files");
  CLI::Option* geometry = verb.add_option("--geometry", raw.geometry, "A layer of this size with random weights");
  geometry->type_name(detail::format("{}|HEADS,DIM,HIDDEN", fmt::join(geometry_names(), "|")))->excludes(model);
  verb.add_option("--layer", raw.layer, "The N of layers.N in tensor names [the first KDA layer]")
      ->type_name("N")
      ->excludes(geometry);
  CLI::Option* cases = verb.add_option("--cases", raw.cases, "Case file with inputs and truth [seeded random input]");
  cases->type_name("FILE")->excludes(geometry);
  verb.add_option("--device", raw.device, "Device id; cpu means cpu:0 [cpu:0]")->type_name("ID");
  verb.add_option("--mode", raw.mode, "How to run the tokens")
      ->type_name("all|decode|decode_k|prefill|prefill_split")
      ->check(one_of({"all", "decode", "decode_k", "prefill", "prefill_split"}))
      ->capture_default_str();
  verb.add_option("--route", raw.route, "Order of the sums: the best on offer, or that of the reference")
      ->type_name("auto|reference")
      ->check(one_of({"auto", "reference"}))
      ->capture_default_str();
  add_gemm(verb, raw);
  add_without(verb, raw);
  verb.add_option("--tokens", raw.tokens, "Length of the random input [17]")->type_name("T")->excludes(cases);
  verb.add_option("--seed", raw.seed, "Seed of the random input, and of a geometry's weights [0]")
      ->type_name("S")
      ->excludes(cases);
  verb.add_option("--sample-rows", raw.sample_rows, "Compare so many rows of the output, not all: for long inputs")
      ->type_name("N")
      ->excludes(cases);
}

void add_report(CLI::App& app, Raw& raw) {
  add_verb(app, "report", "Everything that a bug report needs, in one paste",
           "Examples:\n"
           "  kda-probe report\n"
           "  kda-probe report --output report.txt",
           raw);
}

void add_bench_options(CLI::App& verb, Raw& raw) {
  add_common(verb, raw, bench_formats);
  verb.add_option("--geometry", raw.geometries, "Layers of these sizes with random weights [all that have a name]")
      ->type_name(detail::format("{}|HEADS,DIM,HIDDEN,..", fmt::join(geometry_names(), "|")))
      ->allow_extra_args(false);
  verb.add_option("--device", raw.device, "Device id; cpu means cpu:0 [cpu:0]")->type_name("ID");
  verb.add_option("--mode", raw.mode, "Which calls to time")
      ->type_name("all|decode|decode_k|prefill")
      ->check(one_of({"all", "decode", "decode_k", "prefill"}))
      ->capture_default_str();
  verb.add_option("--tokens", raw.token_lists, "Tokens per call of prefill, or of decode_k with --mode decode_k")
      ->type_name("N,..")
      ->allow_extra_args(false);
  verb.add_flag("--graph", raw.graph, "Time replays of a captured call as well");
  verb.add_option("--repeats", raw.repeats, "Samples per row [50, or what 10 seconds allow]")->type_name("R");
  verb.add_option("--seed", raw.seed, "Seed of weights and inputs [0]")->type_name("S");
  verb.add_option("--route", raw.route, "Order of the sums: the best on offer, or that of the reference")
      ->type_name("auto|reference")
      ->check(one_of({"auto", "reference"}))
      ->capture_default_str();
  add_without(verb, raw);
}

void add_bench_layer(CLI::App& bench, Raw& raw) {
  CLI::App& verb = *bench.add_subcommand("layer", "Time the calls of a KDA layer");
  verb.footer(
      "Examples:\n"
      "  kda-probe bench layer\n"
      "  kda-probe bench layer --geometry kimi-linear --mode decode --graph\n"
      "  kda-probe bench layer --geometry kimi-k3,glm-5.3-flash --mode prefill --tokens 512,2048 --format json\n"
      "  kda-probe bench layer --geometry 4,64,256 --repeats 5 --format md");
  add_bench_options(verb, raw);
  add_gemm(verb, raw);
  verb.add_option("--batch", raw.batch_lists, "Sequences per call: a layer takes 1")
      ->type_name("B,..")
      ->allow_extra_args(false);
}

void add_bench_core(CLI::App& bench, Raw& raw) {
  CLI::App& verb = *bench.add_subcommand("core", "Time a KDA layer without its projections, or its recurrent kernel");
  verb.footer(
      "Examples:\n"
      "  kda-probe bench core --geometry kimi-linear\n"
      "  kda-probe bench core --geometry kimi-linear --mode prefill --tokens 8192 --format json\n"
      "  kda-probe bench core --geometry kimi-linear --mode decode --batch 1,8,32,64,128,256 --graph");
  add_bench_options(verb, raw);
  verb.add_option("--batch", raw.batch_lists,
                  "With --mode decode: the recurrent kernel alone, one token of each of B sequences")
      ->type_name("B,..")
      ->allow_extra_args(false);
}

void add_bench_launch(CLI::App& bench, Raw& raw) {
  CLI::App& verb = *bench.add_subcommand("launch", "Time the submission of a launch beside the driver's own call");
  verb.footer(
      "Examples:\n"
      "  kda-probe bench launch\n"
      "  kda-probe bench launch --device vulkan:0 --format json");
  add_common(verb, raw, bench_formats);
  verb.add_option("--device", raw.device, "Device id; cpu means cpu:0 [cpu:0]")->type_name("ID");
  verb.add_option("--repeats", raw.repeats, "Samples per row [400, or what 5 seconds allow]")->type_name("R");
}

// A verb of verbs: what there is to time.
void add_bench(CLI::App& app, Raw& raw) {
  CLI::App& bench = *app.add_subcommand("bench", "Time a KDA layer, its core, or launches");
  bench.require_subcommand(0, 1);
  add_common(bench, raw, bench_formats);
  add_bench_layer(bench, raw);
  add_bench_core(bench, raw);
  add_bench_launch(bench, raw);
}

KdaRoute route(const Raw& raw) {
  return raw.route == "reference" ? KdaRoute::reference : KdaRoute::automatic;
}

KdaGemm gemm(const Raw& raw) {
  if (raw.gemm == "auto") return KdaGemm::automatic;
  if (raw.gemm == "own") return KdaGemm::own;
  if (raw.route == "reference") usage("--gemm: a service's sums are not those of --route reference");
  return KdaGemm::service;
}

std::uint64_t seed(const Raw& raw) {
  return raw.seed.empty() ? 0 : number("--seed", raw.seed, 0, std::numeric_limits<std::uint64_t>::max());
}

// Sequences per call; what does not go with the rest of the command line is refused.
std::vector<std::uint32_t> batches(const Raw& raw, BenchOf of) {
  std::vector<std::uint32_t> result;
  for (const std::string& text : names(raw.batch_lists)) {
    result.push_back(static_cast<std::uint32_t>(number("--batch", text, 1, most_batch)));
  }
  if (of == BenchOf::core) {
    if (!result.empty() && parse_mode(raw.mode) != Mode::decode) usage("--batch: needs --mode decode");
    return result;
  }
  for (const std::uint32_t batch : result) {
    if (batch != 1) {
      usage(detail::format(
          "--batch: a layer takes 1 sequence per call, not {}; the recurrent kernel takes more: bench core", batch));
    }
  }
  return {};
}

std::optional<std::uint32_t> repeats(const Raw& raw) {
  if (raw.repeats.empty()) return std::nullopt;
  return static_cast<std::uint32_t>(number("--repeats", raw.repeats, 1, most_repeats));
}

LaunchBenchOptions launch_options(const Raw& raw) {
  LaunchBenchOptions options;
  if (!raw.device.empty()) options.device = device_id(raw.device);
  options.repeats = repeats(raw);
  options.kernel_set = directory(raw.kernel_set);
  return options;
}

BenchOptions bench_options(const Raw& raw, BenchOf of) {
  BenchOptions options;
  options.of = of;
  options.batches = batches(raw, of);
  options.geometries = geometries(names(raw.geometries));
  if (!raw.device.empty()) options.device = device_id(raw.device);
  const std::optional<Mode> mode = parse_mode(raw.mode);
  options.modes = mode ? std::vector<Mode>{*mode} : std::vector<Mode>{Mode::decode, Mode::decode_k, Mode::prefill};
  for (const std::string& text : names(raw.token_lists)) options.tokens.push_back(number32("--tokens", text, 1));
  for (const std::uint32_t tokens : options.tokens) {
    if (mode == Mode::decode && tokens != 1) usage(detail::format("--tokens: decode takes 1 per call, not {}", tokens));
  }
  options.graph = raw.graph;
  options.repeats = repeats(raw);
  options.seed = seed(raw);
  options.route = route(raw);
  options.gemm = gemm(raw);
  options.without = names(raw.without);
  options.kernel_set = directory(raw.kernel_set);
  return options;
}

LayerOptions layer_options(const Raw& raw) {
  LayerOptions options;
  if (raw.model.empty() && raw.geometry.empty()) usage("layer needs a MODEL_DIR or --geometry");
  options.model = raw.model;
  if (!raw.geometry.empty()) {
    const std::vector<Geometry> chosen = geometries(names({raw.geometry}));
    if (chosen.size() != 1) usage("--geometry: layer takes one");
    options.geometry = chosen.front();
  }
  if (!raw.layer.empty()) options.layer = number32("--layer", raw.layer, 0);
  options.cases = raw.cases;
  if (!raw.device.empty()) options.device = device_id(raw.device);
  if (const std::optional<Mode> mode = parse_mode(raw.mode)) {
    options.modes = {*mode};
  } else {
    options.modes = all_modes();
  }
  options.route = route(raw);
  options.gemm = gemm(raw);
  options.without = names(raw.without);
  if (!raw.tokens.empty()) {
    options.tokens = number32("--tokens", raw.tokens, raw.mode == to_string(Mode::prefill_split) ? 2 : 1);
  }
  options.seed = seed(raw);
  if (!raw.sample_rows.empty()) options.sample_rows = number32("--sample-rows", raw.sample_rows, 1);
  options.kernel_set = directory(raw.kernel_set);
  return options;
}

KernelsOptions kernels_options(const Raw& raw, const CLI::App& verb) {
  KernelsOptions options;
  if (!raw.device.empty()) options.device = device_id(raw.device);
  options.backend = raw.set;
  if (verb.count("--target") != 0) options.target = raw.target;
  options.without = names(raw.without);
  options.kernel_set = directory(raw.kernel_set);
  return options;
}

Invocation invocation(const CLI::App& app, const Raw& raw) {
  if (app.get_subcommands().empty())
    usage(detail::format("a verb is missing; the verbs are {}", fmt::join(verbs, ", ")));
  const CLI::App& verb = *app.get_subcommands().front();
  const std::string& name = verb.get_name();
  if (name != "bench" && raw.format != "text" && raw.format != "json") {
    usage(detail::format("--format: {} is for benchmarks; {} takes {}", raw.format, name, fmt::join(formats, ", ")));
  }
  if (name == "bench") {
    if (verb.get_subcommands().empty()) {
      usage(detail::format("bench: what to time is missing; there is: {}", fmt::join(bench_verbs, ", ")));
    }
    const std::string& what = verb.get_subcommands().front()->get_name();
    if (what == "launch") return {"bench launch", launch_options(raw)};
    return {"bench " + what, bench_options(raw, what == "core" ? BenchOf::core : BenchOf::layer)};
  }
  if (name == "list") return {name, ListOptions{directory(raw.kernel_set)}};
  if (name == "report") return {name, ReportOptions{directory(raw.kernel_set)}};
  if (name == "kernels") return {name, kernels_options(raw, verb)};
  if (name == "layer") return {name, layer_options(raw)};
  InfoOptions options;
  if (!raw.device.empty()) options.device = device_id(raw.device);
  options.kernel_set = directory(raw.kernel_set);
  return {name, options};
}

// A flag that is there with an empty value is a mistake, seldom a wish: `--device "$DEVICE"` with DEVICE unset.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) usage(detail::format("{}: the value is empty", option->get_name()));
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) refuse_empty_values(*verb);
}

// That of the verb that the arguments came to, or the program's.
std::string help_of(const CLI::App& app) {
  const CLI::App* last = &app;
  std::string before;
  for (auto deeper = app.get_subcommands(); !deeper.empty(); deeper = last->get_subcommands()) {
    before += (before.empty() ? "" : " ") + last->get_name();
    last = deeper.front();
  }
  return last->help(before);
}

Invocation parse_with(CLI::App& app, Raw& raw, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as the library wants it
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return {"help", TextRequest{"help", help_of(app)}};
  } catch (const CLI::CallForVersion&) {
    return {"version", TextRequest{"version", version()}};
  } catch (const CLI::ParseError& error) {
    usage(error.what());
  }
  refuse_empty_values(app);
  return invocation(app, raw);
}

// Of any text; what is wrong with it is said elsewhere.
Format format(std::string_view name) {
  if (name == "json") return Format::json;
  if (name == "csv") return Format::csv;
  return name == "md" ? Format::md : Format::text;
}

// The word that stands where the verb belongs, if there is one: the first that is neither a flag nor a flag's value.
std::optional<std::string> verb_word(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--format" || word == "--output" || word == "--kernel-set") {
      ++i;
    } else if (!word.starts_with('-')) {
      return word;
    }
  }
  return std::nullopt;
}

}  // namespace

Outline outline(const std::vector<std::string>& arguments) {
  Outline result;
  const std::optional<std::string> verb = verb_word(arguments);
  if (verb && std::find(verbs.begin(), verbs.end(), *verb) != verbs.end()) result.command = verb;
  for (const std::string_view what : bench_verbs) {
    if (verb == "bench" && std::find(arguments.begin(), arguments.end(), what) != arguments.end()) {
      result.command = detail::format("bench {}", what);
      break;
    }
  }
  const auto take = [&](std::string_view flag, std::string_view value) {
    if (flag == "--format") result.output.format = format(value);
    if (flag == "--output" && !value.empty()) result.output.file = value;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      take(word.substr(0, equals), word.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      take(word, arguments[i + 1]);
    }
  }
  return result;
}

Invocation parse(const std::vector<std::string>& arguments) {
  if (const auto verb = verb_word(arguments); verb && std::find(verbs.begin(), verbs.end(), *verb) == verbs.end()) {
    usage(detail::format("unknown verb '{}'; the verbs are {}", *verb, fmt::join(verbs, ", ")));
  }
  Raw raw;
  CLI::App app("Finds out which KDA kernels run on this machine and whether they are right.", "kda-probe");
  app.set_help_flag("-h,--help", "Print this help, or that of a verb");
  app.set_version_flag("--version", version());
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  kda-probe list\n"
      "  kda-probe layer --geometry kimi-linear --mode decode --tokens 4\n"
      "  kda-probe layer model --cases model/cases.safetensors --format json\n"
      "  kda-probe layer --help\n"
      "Exit codes: 0 ok, 1 a check failed, 2 usage, 3 backend or driver, 4 device, 5 bad input, 6 device failure,\n"
      "70 anything else.");
  add_common(app, raw, bench_formats);
  add_list(app, raw);
  add_info(app, raw);
  add_kernels(app, raw);
  add_layer(app, raw);
  add_report(app, raw);
  add_bench(app, raw);
  return parse_with(app, raw, arguments);
}

}  // namespace kdart::probe
