# Compiler, linker and cache settings. Two interface targets carry them:
#   kdart_options   what the code needs to be right: language level, floating point, paths that do not name this machine
#   kdart_warnings  the warnings that the project keeps clean with g++ 12 and clang 19
# Both are private to the build; nothing of them reaches the installed package.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE
        Release
        CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # Headers of packages under build/deps are found beside the system's.
  list(APPEND CMAKE_PREFIX_PATH "${PROJECT_SOURCE_DIR}/build/deps/catch2/usr")

  # Hits in another checkout too: paths below the source folder are taken relative, the working folder is not hashed.
  find_program(KDART_CCACHE ccache)
  if(KDART_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
                                    CCACHE_NOHASHDIR=true "${KDART_CCACHE}")
  endif()

  if(KDART_LINKER STREQUAL "AUTO")
    find_program(KDART_MOLD mold)
    find_program(KDART_LLD NAMES ld.lld ld.lld-19)
    if(KDART_MOLD)
      add_link_options(-fuse-ld=mold)
    elseif(KDART_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_link_options(-fuse-ld=lld)
    endif()
  elseif(KDART_LINKER)
    add_link_options("-fuse-ld=${KDART_LINKER}")
  endif()

  if(KDART_SANITIZE)
    add_compile_options("-fsanitize=${KDART_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options("-fsanitize=${KDART_SANITIZE}")
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(kdart_options INTERFACE)
target_compile_features(kdart_options INTERFACE cxx_std_20)
target_compile_options(
  kdart_options
  INTERFACE # Multiply and add stay two roundings on every host: kernels promise the same bits on each route.
            -ffp-contract=off
            # No path of the build machine in messages or binaries, and cache hits across checkouts.
            "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")

add_library(kdart_warnings INTERFACE)
target_compile_options(
  kdart_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wold-style-cast
            -Wcast-align
            -Wcast-qual
            -Wdouble-promotion
            -Wformat=2
            -Wimplicit-fallthrough
            -Wextra-semi
            -Wundef
            -Wunused)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kdart_warnings INTERFACE -Wduplicated-cond -Wduplicated-branches -Wlogical-op)
endif()
if(KDART_WERROR)
  target_compile_options(kdart_warnings INTERFACE -Werror)
  # g++ 12 sees overlapping copies in plain string concatenation (its bug 105651, mended in 13).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(kdart_warnings INTERFACE -Wno-error=restrict)
  endif()
endif()

# Used inside the library only; see the note on BUILD_INTERFACE in core/CMakeLists.txt.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
