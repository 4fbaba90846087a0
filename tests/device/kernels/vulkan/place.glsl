// Where a thread is in its launch: blocks and threads in the order of their indices, x fastest.
uint block_number() {
  return (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}
uint threads_of_block() {
  return gl_WorkGroupSize.x * gl_WorkGroupSize.y * gl_WorkGroupSize.z;
}
uint thread_number() {
  return block_number() * threads_of_block() + gl_LocalInvocationIndex;
}
