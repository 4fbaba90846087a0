// KDART_API: default visibility for what crosses the library's boundary. kdart itself is built with hidden visibility.
#pragma once

#if defined(__GNUC__)
#define KDART_API __attribute__((visibility("default")))
#else
#define KDART_API
#endif
