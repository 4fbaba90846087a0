# Fails unless the file README holds the file EXAMPLE, from its first #include on, word for word.
#   cmake -D README=README.md -D EXAMPLE=examples/embed.cpp -P check_readme.cmake
file(READ "${README}" readme)
file(READ "${EXAMPLE}" example)
string(FIND "${example}" "#include" start)
string(SUBSTRING "${example}" ${start} -1 example)
string(FIND "${readme}" "${example}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${README} does not show ${EXAMPLE} as it is; copy the file there from its first #include on")
endif()
