# kdart_fold_boost_context(<target>)
#
# Gives <target> the context switch of Boost.Context (three assembly routines) as objects of its own, so that whoever
# links a static kdart needs no Boost. The routines are renamed with a kdart_ prefix, in the objects and, by macros, in
# Boost's headers: a program that links another Boost.Context meets no second definition.
# The stack allocators that need compiled code (fixedsize and protected_fixedsize_stack) are not among them.
function(kdart_fold_boost_context target)
  find_path(KDART_BOOST_INCLUDE_DIR boost/context/detail/fcontext.hpp REQUIRED)
  find_library(KDART_BOOST_CONTEXT NAMES libboost_context.a REQUIRED)
  if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "kdart: objcopy is needed to fold Boost.Context into the library")
  endif()

  set(folder "${PROJECT_BINARY_DIR}/generated/boost_context")
  execute_process(
    COMMAND "${CMAKE_AR}" t "${KDART_BOOST_CONTEXT}"
    OUTPUT_VARIABLE members
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" members "${members}")
  list(FILTER members INCLUDE REGEX "^(make|jump|ontop)_.*\\.o$")
  list(LENGTH members count)
  if(NOT count EQUAL 3)
    message(FATAL_ERROR "kdart: ${KDART_BOOST_CONTEXT} has '${members}' where make_*, jump_* and ontop_* are expected")
  endif()

  set(objects "")
  set(commands "")
  foreach(member IN LISTS members)
    list(APPEND objects "${folder}/${member}")
    list(APPEND commands
         COMMAND "${CMAKE_OBJCOPY}"
                 --redefine-sym make_fcontext=kdart_make_fcontext
                 --redefine-sym jump_fcontext=kdart_jump_fcontext
                 --redefine-sym ontop_fcontext=kdart_ontop_fcontext
                 "${folder}/${member}")
  endforeach()
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT ${objects}
    COMMAND "${CMAKE_COMMAND}" -E chdir "${folder}" "${CMAKE_AR}" x "${KDART_BOOST_CONTEXT}" ${members}
    ${commands}
    DEPENDS "${KDART_BOOST_CONTEXT}"
    COMMENT "Taking the context switch from ${KDART_BOOST_CONTEXT}"
    VERBATIM)
  # A target of its own: the rule above belongs to the folder that calls this, <target> maybe to another.
  add_custom_target(${target}_boost_context DEPENDS ${objects})
  add_dependencies(${target} ${target}_boost_context)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(${target} PRIVATE ${objects})
  target_include_directories(${target} SYSTEM PRIVATE "${KDART_BOOST_INCLUDE_DIR}")
  target_compile_definitions(
    ${target} PRIVATE make_fcontext=kdart_make_fcontext jump_fcontext=kdart_jump_fcontext
                      ontop_fcontext=kdart_ontop_fcontext)
endfunction()
