__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void step_0(__global const int* restrict in0, __global const int* restrict in1, __global int* restrict out) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  int t[1] __attribute__((aligned(4)));
  int t_1[1] __attribute__((aligned(4)));
  int t_2[1] __attribute__((aligned(4)));
  if (group_x * 64 + (local_x >> 1) < 75) {
    t[0] = in1[group_x * 128 + local_x];
    t_1[0] = in0[group_x * 128 + local_x];
    t_2[0] = (t_1[0] & -32) == 0 ? t[0] << t_1[0] : 0;
    t[0] = t[0] ^ t_1[0];
    out[group_x * 128 + local_x] = t_2[0] / ((int)(t[0] == -1) * 2 + t[0] + (int)(t[0] == 0)) * (1 - (int)(t[0] == 0) - (int)(t[0] == -1) * 2);
  }
}
